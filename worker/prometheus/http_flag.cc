// The flag --http of the programs that train.

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/http/http_server.h"
#include "ding_worker/worker/program/link_flags.h"
#include "ding_worker/worker/program/run_monitor.h"
#include "ding_worker/worker/prometheus/run_server.h"
#include "gflags/gflags.h"

DEFINE_string(http, "",
              "address where the page and the metrics of the run are served; empty: nowhere");

namespace ding {
namespace {

constexpr char kHelp[] =
    R"(  --http=ADDRESS:PORT   serves a page that shows the run, and its metrics for Prometheus at /metrics; port 0: any
                          free one. Beyond loopback it needs --tls_cert, --tls_key and --token_file
                          (docs/how_to/watch_a_run.md, docs/how_to/metrics_by_prometheus.md)
)";

bool IsGiven() { return !google::GetCommandLineFlagInfoOrDie("http").is_default; }

absl::StatusOr<std::unique_ptr<RunMonitor>> StartByFlag() {
  if (!IsGiven()) return nullptr;
  if (FLAGS_http.empty()) {
    return absl::InvalidArgumentError(
        "--http is empty, expected ADDRESS:PORT; port 0: any free one");
  }
  DING_RETURN_IF_ERROR(MakeLinkFlagsAbsolute());
  HttpServer::Options options;
  options.address = FLAGS_http;
  options.link = LinkOptions("");
  absl::StatusOr<std::unique_ptr<RunServer>> server = RunServer::Start(options);
  if (!server.ok()) return Annotate(server.status(), "--http");
  std::fprintf(stderr, "page: %s, metrics: %smetrics\n", (*server)->url().c_str(),
               (*server)->url().c_str());
  return *std::move(server);
}

std::string Argument() { return IsGiven() ? absl::StrCat("--http=", FLAGS_http) : ""; }

[[maybe_unused]] const bool linked = LinkRunMonitor({kHelp, &StartByFlag, &Argument});

}  // namespace

}  // namespace ding
