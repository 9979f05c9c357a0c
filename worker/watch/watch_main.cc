// //worker/watch: shows runs in a browser, while they run and afterwards.

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/interaction/grpc/grpc_transport.h"
#include "ding_worker/interaction/grpc/link_credentials.h"
#include "ding_worker/interaction/http/http_server.h"
#include "ding_worker/worker/processes/ask_operator.h"
#include "ding_worker/worker/program/interrupt.h"
#include "ding_worker/worker/program/link_flags.h"
#include "ding_worker/worker/program/program.h"
#include "ding_worker/worker/run_folder/paths.h"
#include "ding_worker/worker/watch/run_control.h"
#include "ding_worker/worker/watch/watch_page.h"
#include "ding_worker/worker/watch/watched_run.h"
#include "gflags/gflags.h"

DEFINE_string(http, "127.0.0.1:8765", "address of the page");

namespace ding {
namespace {

constexpr char kHelp[] =
    R"(Shows runs in a browser, while they run and afterwards, until Ctrl-C. With --token_file, operators
can order a parallel run there to grow, shrink or stop.

  watch --run=FOLDER [--run=FOLDER]...

  --run=FOLDER          folder of a run, or one that has runs in it
  --http=ADDRESS:PORT   where the page is (default: 127.0.0.1:8765; port 0: any free one)

{link flags}

  --help                prints this page, and exits
)";

// How the coordinators of runs are asked: with the files of the page. Without an authority, the
// coordinators of this machine are asked without TLS, and others cannot be asked.
GrpcTransportOptions RunLink() {
  GrpcTransportOptions link = LinkOptions("operator");
  if (link.tls_ca.empty()) link.tls_cert = link.tls_key = "";
  return link;
}

absl::Status Watch(const std::vector<std::string>& paths) {
  if (paths.empty()) return absl::InvalidArgumentError("--run=FOLDER is missing; see --help");
  DING_RETURN_IF_ERROR(EnterCallersFolder());
  DING_RETURN_IF_ERROR(MakeLinkFlagsAbsolute());
  std::vector<std::string> folders;
  for (const std::string& path : paths) {
    DING_ASSIGN_OR_RETURN(const std::string absolute, AbsolutePath(path));
    DING_ASSIGN_OR_RETURN(const std::vector<std::string> found, FindRuns(absolute));
    folders.insert(folders.end(), found.begin(), found.end());
  }
  // gRPC aborts the program when it cannot start a thread.
  DING_RETURN_IF_ERROR(CheckThreads(GrpcTransport::kThreads));
  GrpcTransport transport(RunLink());
  DING_ASSIGN_OR_RETURN(auto control, RunControl::Start(AskerOf(&transport)));
  const bool orders = !LinkOptions("").token_file.empty();
  DING_ASSIGN_OR_RETURN(const auto page, WatchPage::Start(folders, std::move(control), orders));
  HttpServer::Options options;
  options.address = FLAGS_http;
  options.link = LinkOptions("");
  options.post = [&page](const HttpRequest& r) { return page->HandlePost(r); };
  CatchInterrupts();
  DING_ASSIGN_OR_RETURN(
      const auto server,
      HttpServer::Start(options, [&page](const HttpRequest& r) { return page->Handle(r); }));
  std::printf("watching %s: %s\n",
              folders.size() == 1 ? "1 run" : absl::StrCat(folders.size(), " runs").c_str(),
              server->url().c_str());
  std::fflush(stdout);
  while (!IsInterrupted()) absl::SleepFor(absl::Milliseconds(50));
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  std::vector<std::string> paths;
  const absl::Status taken = TakeRepeated("run", "FOLDER", &argc, argv, &paths);
  InitProgram(&argc, &argv, absl::StrReplaceAll(kHelp, {{"{link flags}\n", kLinkFlagsHelp}}));
  absl::Status status = taken;
  if (status.ok()) status = Watch(paths);
  return status.ok() ? 0 : ReportFailure(status);
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) { return ding::Main(argc, argv); }
