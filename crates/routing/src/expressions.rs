//! From a path to the first of a host's routes whose regular expression it matches.
//!
//! Each expression is asked by itself: most are told apart by what they begin with, before a matcher runs.

use model::{Expression, PathMatch};

/// The routes of a host that take paths by regular expressions, in the order of the model.
#[derive(Debug, Default)]
pub(crate) struct Expressions(Box<[(Expression, u32)]>);

impl Expressions {
    pub(crate) fn new<'a>(routes: impl Iterator<Item = &'a PathMatch>) -> Self {
        let with_expression = |(route, path): (u32, &PathMatch)| Some((path.expression()?.clone(), route));
        Self((0..).zip(routes).filter_map(with_expression).collect())
    }

    /// The first route that takes a normalised path. `complies` says whether the request complies with the conditions of a route.
    pub(crate) fn find(&self, path: &[u8], complies: impl Fn(usize) -> bool) -> Option<usize> {
        let takes =
            |(expression, route): &&(Expression, u32)| expression.is_match(path) && complies(*route as usize);
        self.0.iter().find(takes).map(|(_, route)| *route as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_takes_the_path_is_found() {
        let paths = ["/api/(v1|v2)", "/api", "/"].map(|text| PathMatch::regex(text).unwrap());
        let prefix = PathMatch::prefix("/plain").unwrap();
        let table = Expressions::new([&prefix].into_iter().chain(&paths));
        let find = |path: &str| table.find(path.as_bytes(), |_| true);
        assert_eq!(find("/API/v2/x"), Some(1));
        assert_eq!(find("/apis"), Some(2));
        assert_eq!(find("/plain"), Some(3));
        assert_eq!(table.find(b"/api/v1", |route| route == 3), Some(3), "where conditions do not hold");
        assert_eq!(Expressions::default().find(b"/", |_| true), None);
    }
}
