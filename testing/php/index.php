<?php
// What `cargo xtask conformance --only php` asks: it says what it was told, or what it was sent.
if (isset($_GET['status'])) {
    http_response_code((int) $_GET['status']);
    error_log('a status was asked for');
}
if (isset($_GET['echo'])) {
    header('Content-Type: application/octet-stream');
    echo file_get_contents('php://input');
    return;
}
header('Content-Type: application/json');
echo json_encode(['server' => $_SERVER, 'get' => $_GET, 'post' => $_POST]);
