// The texts of the page in Chinese. Names, reasons, settings and commands stay as they are.

export const zh = {
  // === frame ===
  "Pages": "页面",
  "Search": "搜索",
  "Sign out": "退出登录",
  "Skip to the content": "跳到内容",
  "Search hosts, routes, clusters, certificates, services and problems": "搜索主机、路由、集群、证书、服务和问题",
  "Theme: {0}": "主题：{0}",
  "auto": "自动", "light": "浅色", "dark": "深色",
  "live": "实时",
  "No answer since {0}{1}. Trying again.": "自 {0} 起没有应答{1}。正在重试。",
  "{0}, rows": "{0}，各行",
  "Loading.": "正在加载。",
  "The server does not answer.": "服务器没有应答。",
  "Filter": "筛选",

  // === what is counted ===
  "route": "条路由", "cluster": "个集群", "endpoint": "个端点", "host": "个主机", "certificate": "张证书", "TCP or UDP service": "个 TCP 或 UDP 服务",
  "service": "个服务", "request": "个请求", "check": "项检查", "error": "个错误", "warning": "个警告", "problem": "个问题", "new problem": "个新问题",
  "result": "个结果", "match": "行匹配", "step": "个步骤", "CPU": "个 CPU",
  "endpoint fails its health check": "个端点未通过健康检查", "health check: {0}": "健康检查：{0}", "health check: {0}; used since most fail": "健康检查：{0}；因多数端点失败而仍在使用", "passes again, not often enough yet": "已恢复通过，但次数尚不足",
  "endpoint is ejected": "个端点已被摘除", "certificate has ended": "张证书已过期", "certificate ends within 14 days": "张证书将在 14 天内过期",

  // === overview ===
  "Overview": "概览",
  "Requests": "请求", "Errors 5xx": "5xx 错误", "Latency p50": "延迟 p50", "Latency p99": "延迟 p99", "Connections reused": "连接复用率",
  "Client connections": "客户端连接", "Upstream connections": "上游连接", "Local ports in use": "已用本地端口", "CPU used": "已用 CPU", "Memory": "内存",
  "{0} since the start": "启动以来 {0}",
  "upstream: {0}": "上游：{0}",
  "{0} opened /s": "每秒新建 {0}",
  "{0} accepted /s": "每秒接受 {0}",
  "{0} idle": "空闲 {0}",
  "{0} of {1}": "{0} / {1}",
  "of {0}, no quota": "共 {0}，无配额",
  "of {0} allowed by the quota": "配额允许 {0}",
  "resident": "常驻",
  "Requests a second": "每秒请求", "all": "全部", "Latency": "延迟", "upstream p99": "上游 p99", "p50": "p50", "p99": "p99", "4xx": "4xx", "5xx": "5xx",
  "Upstream connections a second": "每秒上游连接", "requests": "请求", "opened": "新建", "closed too early": "关闭过早",
  "Open connections": "打开的连接", "clients": "客户端", "upstream": "上游", "upstream idle": "上游空闲",
  "5 min": "5 分钟", "1 h": "1 小时", "1 day": "1 天",
  "Time of the charts": "图表的时间范围",
  "Failing now": "正在失败",
  "Routes that fail": "失败的路由",
  "Route": "路由", "5xx/s": "5xx/秒", "Share": "占比", "Reason": "原因", "Endpoints": "端点",
  "returned by the endpoint": "由端点返回",
  "No route has returned 5xx within the last half minute.": "最近半分钟没有路由返回 5xx。",
  "What needs a look": "需要关注",
  "Nothing so far; the doctor has not looked yet.": "暂无；诊断尚未运行。",
  "Nothing. {0} of the doctor found nothing that costs QPS.": "无。诊断的 {0}没有发现损失 QPS 的原因。",
  "The canary {0} gets nothing: {1}.": "金丝雀 {0} 不再接收请求：{1}。",
  "The canary {0} is in step {1} of {2}, with {3} of the requests.": "金丝雀 {0} 处于第 {1} 步（共 {2} 步），占请求的 {3}。",
  "A watch fails: {0}": "watch 失败：{0}",
  "The API server was not reached: what was kept on disk is served.": "无法连接 API server：正在使用保存在磁盘上的配置。",
  "Configuration {0} is not in force at every worker yet.": "配置 {0} 尚未在所有 worker 上生效。",
  "The process is short of something: {0} (level {1}).": "进程资源不足：{0}（级别 {1}）。",
  "{0} in objects: something that they ask for is not served.": "对象中有 {0}：其要求的内容未能提供。",
  "{0} about objects.": "关于对象有 {0}。",
  "Version {0}, up {1}. Configuration {2}: {3}.": "版本 {0}，已运行 {1}。配置 {2}：{3}。",
  "The first certificate ends on {0}.": "最早的证书于 {0} 过期。",
  "Failures": "失败",
  "Failures by reason": "按原因统计的失败",
  "No request has gone wrong since the start.": "启动以来没有请求失败。",
  "Cause and remedy of each reason: docs/troubleshooting.md.": "各原因的成因与处理方法：docs/troubleshooting.md。",
  "Whose": "责任方", "What it means": "含义", "Since the start": "启动以来", "A second": "每秒",
  "client": "客户端", "forebay": "forebay",

  // === routes ===
  "Routes": "路由", "Hosts and routes": "主机与路由",
  "{0}. Rates are those of the last seconds; – is for no request in that time.": "{0}。速率为最近几秒的值；– 表示这段时间内没有请求。",
  "No routes are served: no Ingress or HTTPRoute has been taken. Problems says why, if there is a reason.": "没有路由：没有接受任何 Ingress 或 HTTPRoute。若有原因，见“问题”页。",
  "Host": "主机", "Path": "路径", "Object": "对象", "Backend": "后端", "Requests/s": "请求/秒", "4xx/s": "4xx/秒",
  "answers {0}": "直接返回 {0}", "files": "文件", "{0} (canary)": "{0}（灰度）", "{0} (fallback)": "{0}（备用）", "nobody": "无",

  // === a route ===
  "Request": "请求", "Client address": "客户端地址", "Headers, one in a line": "请求头，每行一个", "Explain": "解释",
  "What becomes of a request": "请求如何被处理",
  "There is no such route any more.": "此路由已不存在。",
  "Declared by": "声明于", "In": "位置", "TLS": "TLS", "Besides": "其他", "Live": "实时",
  "passed through to {0}": "透传到 {0}", "with a certificate of its own": "使用自己的证书", "with the default certificate": "使用默认证书",
  "conditions": "条件", "asks for client certificates": "要求客户端证书", "nothing": "无",
  "Requests as they end": "实时请求",
  "no endpoint": "没有端点",
  "What {0} is sent": "发送给 {0} 的内容",
  "What the endpoint gets": "端点收到的内容", "What the client gets": "客户端收到的内容",
  "So by default.": "默认如此。",

  // === requests ===
  "Requests as they end, the newest first. All words of the filter have to be in a request: method, host and path, status or class (5xx), reason, object, cluster, endpoint, client. At most 200 a second are shown.":
    "结束的请求，最新的在前。请求须包含筛选中的所有词：方法、主机和路径、状态码或类别（5xx）、原因、对象、集群、端点、客户端。每秒最多显示 200 个。",
  "No request has ended since this page was opened.": "打开此页以来没有请求结束。",
  "Time": "时间", "Status": "状态码", "Took": "耗时", "Upstream": "上游耗时", "Endpoint": "端点", "Client": "客户端",
  "Pause": "暂停",
  "{0}, try {1}": "{0}，第 {1} 次尝试",
  "{0} wait": "{0}等待显示",
  "{0} of {1} that matched": "显示 {0} / 匹配 {1}",
  "Not connected: the server is away, or as many watch as may. Trying again.": "未连接：服务器不可达，或观看者已达上限。正在重试。",

  // === clusters ===
  "Clusters": "集群", "Clusters and endpoints": "集群与端点",
  "{0}, {1}. An endpoint's connections are those of all clusters that it is in.": "{0}，{1}。端点的连接数是它所在的所有集群之和。",
  "There are no clusters: nothing is served that leads to a Service.": "没有集群：没有指向 Service 的路由。",
  "Cluster or endpoint": "集群或端点", "State": "状态", "Errors/s": "错误/秒", "In flight": "处理中", "Open": "打开", "Idle": "空闲", "Opened/s": "新建/秒", "Reused": "复用率", "Closed early/s": "过早关闭/秒",
  "ejected": "已摘除", "failing": "失败", "{0} of {1} failing": "{0} / {1} 失败", "draining": "正在下线", "ready": "就绪", "ready, not asked yet": "就绪，尚无请求",
  "{0} waiting": "{0} 个等待",

  // === replicas ===
  "Replicas": "副本", "Replica": "副本", "replica": "个副本", "Address": "地址", "Version": "版本", "Up": "已运行",
  "no answer": "没有应答", "short of something": "资源不足", "configuration not in force": "配置未生效", "failed check": "项检查故障",
  "{0}: {1} requests/s, {2} responses with 5xx/s, {3} client connections.": "{0}：每秒 {1} 个请求，每秒 {2} 个 5xx 响应，{3} 个客户端连接。",
  "{0} did not answer.": "{0}没有应答。",
  "{0} were not asked.": "{0}未被询问。",
  "Only this replica is known: with controller.replicas.enabled of the chart (--replicas-service, --replicas-secret), replicas know each other.":
    "只知道此副本：启用 chart 的 controller.replicas.enabled（--replicas-service、--replicas-secret）后，各副本才互相知晓。",

  // === certificates ===
  "Certificates": "证书",
  "Those that end first come first. Keys are never shown.": "最先过期的在前。从不显示私钥。",
  "No host has a certificate: what is served over TLS is served with one that was made up at the start.": "没有主机有证书：TLS 使用启动时生成的证书。",
  "Hosts": "主机", "Secret": "Secret", "Issuer": "颁发者", "Key": "密钥", "Ends": "到期", "Days left": "剩余天数", "Renewed": "续期", "all others": "其他所有",

  // === services ===
  "Services": "服务", "TCP and UDP services": "TCP 与 UDP 服务",
  "Ports whose bytes or datagrams are passed on as they are.": "字节或数据报原样转发的端口。",
  "There are none: --tcp-services-configmap and --udp-services-configmap name ConfigMaps with such ports, and Gateways may have TCPRoutes.":
    "没有：--tcp-services-configmap 和 --udp-services-configmap 指定含有这些端口的 ConfigMap，Gateway 可以有 TCPRoute。",
  "Port": "端口", "Service": "服务", "From clients/s": "来自客户端/秒", "To clients/s": "发往客户端/秒", "Could not listen": "无法监听",

  // === identity ===
  "Identity": "身份",
  "Issuers whose tokens routes take, and providers at which people sign in.": "路由接受其令牌的颁发者，以及人员登录所用的提供方。",
  "There are none: no route has a forebay.io/auth-jwt or forebay.io/auth-oidc-issuer.": "没有：没有路由使用 forebay.io/auth-jwt 或 forebay.io/auth-oidc-issuer。",
  "For": "用途",
  "Tokens": "令牌",
  "Sign-in": "登录",
  "not known": "未知",
  "away": "无法访问",
  "known": "已知",
  "Keys, client": "密钥、客户端",
  "Number": "数量",
  "Answered": "上次应答",
  "Objects": "对象",
  "Error": "错误",
  "key": "个密钥",
  "{0} signed in, {1} signed out": "{0} 次登录，{1} 次退出",

  // === countries ===
  "Countries": "国家", "Countries of clients": "客户端所在国家", "Code": "代码", "Country": "国家",
  "Requests since the start, by the country that a database has for the client's address.": "自启动以来的请求，按数据库中客户端地址所属的国家。",
  "None are counted: forebay-client-country-metrics of the ConfigMap turns that on, and use-geoip2 the databases.":
    "没有计数：ConfigMap 的 forebay-client-country-metrics 启用计数，use-geoip2 启用数据库。",

  // === problems ===
  "Problems": "问题",
  "What objects ask for and do not get, and what they should know. The same is in their Events and in the log.": "对象要求而未得到的内容，以及需要知道的事项。其 Event 和日志中有相同内容。",
  "No object has a problem.": "没有对象有问题。",
  "Severity": "级别", "Problem": "问题", "Where": "位置", "notice": "提示",

  // === changes ===
  "Changes": "变更",
  "There is no configuration yet.": "尚无配置。",
  "What the latest 200 configurations of this process changed, the newest first.": "此进程最近 200 次配置变更的内容，最新的在前。",
  "Configuration {0}": "配置 {0}",
  "The first one of this process.": "此进程的第一次配置。",
  "Settings of the proxy changed.": "代理的设置有变更。",
  "Nothing that is listed here: details of TLS, of listeners or of policies.": "没有可列出的内容：TLS、监听器或策略的细节。",
  "{0} solved.": "{0}已解决。",
  "and {0} more": "等另外 {0} 个",
  "added": "已添加", "gone": "已移除", "changed": "已变更",

  // === search ===
  "Found": "搜索结果", "Kind": "种类", "Name": "名称", "Detail": "详情", "Cluster": "集群", "Certificate": "证书",
  "Nothing has all of these words.": "没有包含所有这些词的内容。",
  "{0} of {1} for “{2}”.": "“{2}”：{0}，共 {1}。",

  // === firewall ===
  "Firewall": "防火墙", "Variable": "变量", "Value": "值", "Decided by": "判定规则", "Copy": "复制", "Copied": "已复制",
  "No request was refused by a rule since the start.": "启动以来没有请求被规则拒绝。",
  "The last {0} that rules refused, or would have refused.": "最近被规则拒绝或本应拒绝的 {0}。",
  "{0} were not kept.": "{0}未保留。",
  "refused with {0}": "以 {0} 拒绝", "only reported": "仅报告",
  "Exclusion for {0}": "{0} 的排除规则",
  "There is no exclusion for this match: its variable is not the client's, or its name cannot be written in a rule.": "此匹配没有排除规则：变量不来自客户端，或其名称不能写入规则。",

  // === doctor ===
  "Where did the QPS go?": "QPS 去哪儿了？",
  "The doctor has not looked yet; it does so a second after the start, and each half minute from then on.": "诊断尚未运行；启动一秒后首次运行，之后每半分钟一次。",
  "{0}: {1} failed, {2} warned, {3} not checked, {4} in order.": "{0}：{1} 项故障，{2} 项警告，{3} 项未检查，{4} 项正常。",
  "failure": "故障", "unknown": "未检查", "ok": "正常",
  "Remedy": "处理方法",
  "Drop a report of forebay bench here, as JSON or HTML, or choose one. It stays in this page: nothing is uploaded.": "将 forebay bench 的报告（JSON 或 HTML）拖到这里，或选择一个。它只留在此页面，不会上传。",
  "Report of forebay bench": "forebay bench 的报告",
  "What was seen since this page was opened": "打开此页以来的观测",
  "A report to compare with": "用于对比的报告",
  "{0} cannot be shown: {1}": "无法显示 {0}：{1}",
  "CPUs": "CPU", "used": "已用", "allowed": "允许",
  "What is used of what there is": "资源使用比例", "local ports": "本地端口", "descriptors": "文件描述符", "memory": "内存", "accept queue": "accept 队列",
  "CPU quota used up, threads without a CPU": "CPU 配额耗尽与等待 CPU 的线程", "throttled": "被限流", "stalled": "等待 CPU",
  "Time until a worker's loop comes round": "worker 事件循环一轮的时间", "loop lag": "循环延迟",

  // === reports ===
  "it is not what forebay bench --output json writes": "这不是 forebay bench --output json 的输出",
  "it is not a page that forebay bench --report writes": "这不是 forebay bench --report 的页面",
  "Rate": "速率", "p99.9": "p99.9", "Connections opened": "新建连接", "Received": "接收",
  "in {0}": "耗时 {0}",
  "The load generator was the limit, not the server.": "瓶颈是压测工具，而不是服务器。",
  "No errors.": "没有错误。",

  // === time line ===
  "Time line": "时间线", "Findings and events over time": "诊断发现与事件随时间的变化", "Time that is shown": "显示的时间范围",
  "6 h": "6 小时", "Earlier": "更早", "Later": "更晚", "Now": "现在", "Moment": "时刻",
  "Found at that moment": "该时刻的发现", "What happened in the five minutes before": "此前五分钟发生的事",
  "Findings of this time": "这段时间的发现", "Finding": "发现", "Began": "开始", "Ended": "结束", "Lasted": "持续", "goes on": "仍在持续",
  "Nothing is recorded yet.": "尚无记录。", "Nothing.": "无。",
  "{0} to {1}. Recorded: {2}, from {3} on.": "{0} 至 {1}。已记录 {2}，自 {3} 起。",
};
