//! The words of the figures on the Chinese page: headings and scenes. Other cells are figures, and stay.

/// English as in the sections, and Chinese.
const WORDS: [(&str, &str); 54] = [
    ("CPU s", "CPU 秒"),
    ("CPUs", "CPU 数"),
    ("E, ports", "E，端口"),
    ("E, quota", "E，配额"),
    ("Forebay with the files", "Forebay 直接提供文件"),
    ("Forebay, 500 ports", "Forebay，500 个端口"),
    ("Forebay, nginx", "Forebay、nginx"),
    ("Forebay, remedied", "Forebay，优化后"),
    ("HTTP requests/s", "HTTP QPS"),
    ("HTTPS requests/s", "HTTPS QPS"),
    ("Linux 3.10, `conn_reuse_mode` 1", "Linux 3.10，`conn_reuse_mode` 1"),
    ("Linux 4.19, `conn_reuse_mode` 0", "Linux 4.19，`conn_reuse_mode` 0"),
    ("Linux 5.15, `conn_reuse_mode` 1", "Linux 5.15，`conn_reuse_mode` 1"),
    ("TIME_WAIT towards backends", "到后端的 TIME_WAIT"),
    ("TIME_WAIT towards the backend", "到后端的 TIME_WAIT"),
    ("TLS connections/s", "每秒新建 TLS 连接"),
    ("answered", "有应答"),
    ("begin off by", "开始的偏差"),
    ("case", "案例"),
    ("connections opened per request", "每个请求新建的连接"),
    ("direct", "直连"),
    ("direct, remedied", "直连，优化后"),
    ("end off by", "结束的偏差"),
    ("failed of a burst each 90 ms", "每 90 毫秒一次突发，失败的请求"),
    ("failed", "失败"),
    ("failure", "失败"),
    ("finding", "检查"),
    ("lasted", "持续"),
    ("nginx", "nginx，优化前"),
    ("nginx, `keepalive 80`, 64,512 ports", "nginx，`keepalive 80`，64,512 个端口"),
    ("nginx, `keepalive 8`, 500 ports", "nginx，`keepalive 8`，500 个端口"),
    ("nginx, `keepalive 8`, 64,512 ports", "nginx，`keepalive 8`，64,512 个端口"),
    ("nginx, nginx, nginx", "三级 nginx"),
    ("nginx, nginx, nginx, with `keepalive`", "三级 nginx，使用 `keepalive`"),
    ("nginx, remedied", "nginx，优化后"),
    ("node", "节点"),
    ("of nginx with `keepalive`", "与 nginx 加 `keepalive` 之比"),
    ("ok", "正常"),
    ("over 10 ms", "超过 10 毫秒"),
    ("over 10 ms, as Forebay counts", "超过 10 毫秒（Forebay 的统计）"),
    ("periods throttled", "被 throttle 的周期"),
    ("ports", "端口"),
    ("programs", "程序数"),
    ("replies", "应答"),
    ("requests per CPU second", "每 CPU 秒的请求"),
    ("requests", "请求"),
    ("requests/s direct", "直连 QPS"),
    ("requests/s of 1 KB", "1 KB 的 QPS"),
    ("requests/s", "QPS"),
    ("seconds between samples", "采样间隔（秒）"),
    ("share", "与直连之比"),
    ("slowest", "最慢"),
    ("unknown", "未检查"),
    ("warning", "警告"),
];

/// The cell in Chinese; a figure as it is.
pub(crate) fn cell(english: &str) -> String {
    let known = WORDS.iter().find(|(word, _)| *word == english);
    known.map_or(english, |(_, chinese)| chinese).to_owned()
}

#[test]
fn the_page_has_no_english_scene() {
    let page = include_str!("../../../../docs/field-cases.md");
    let chinese = include_str!("../../../../docs/zh-CN/field-cases.md");
    let generated = |page: &str| -> Vec<Vec<String>> {
        let cases = page.split(": begin (written by").skip(1).filter_map(|part| part.split_once(": end -->"));
        let rows = cases.flat_map(|(part, _)| part.lines().filter(|line| line.starts_with('|')));
        let cells = |row: &str| row.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
        rows.filter(|row| !row.starts_with("|-")).map(cells).collect()
    };
    let expected: Vec<Vec<String>> =
        generated(page).into_iter().map(|row| row.iter().map(|text| cell(text)).collect()).collect();
    assert_eq!(generated(chinese), expected, "both pages have the figures of one run");
}
