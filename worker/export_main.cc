// //worker:export: writes the policy of a checkpoint in formats of other programs. A program links
// it with the exporters that it offers.

#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/export/exporter.h"
#include "ding_worker/worker/list_registry.h"
#include "ding_worker/worker/program/program.h"
#include "ding_worker/worker/saved_policy/saved_policy.h"
#include "gflags/gflags.h"

DEFINE_string(checkpoint, "", "folder of a run or of a checkpoint");
DEFINE_string(format, "", "onnx, c or torchscript");
DEFINE_bool(list_modules, false, "print the formats that this program has, and exit");
DEFINE_string(output, "", "folder that the files are written to");

namespace ding {
namespace {

constexpr char kHelp[] =
    R"(Writes the policy of a checkpoint in a format of other programs, with normalization inside, and
golden.json beside it: inputs, and what the actor makes of them (docs/how_to/deploy.md).

  export --checkpoint=FOLDER --format=FORMAT --output=FOLDER

  --checkpoint=FOLDER   of a run: its ckpt_best is taken, else its newest checkpoint; or of a checkpoint
  --format=FORMAT       onnx: policy.onnx; c: policy.h and policy.c, C99 without dependencies;
                        torchscript: policy.pt, by //worker:export_torch
  --output=FOLDER       that the files are written to; it is created
  --list_modules        prints the formats that this program has, and exits
  --help                prints this page, and exits

Prints the files on stdout, and which checkpoint it is on stderr.
Exit code: 0 all was written, 1 an error.
)";

absl::Status Export() {
  if (FLAGS_list_modules) {
    std::string text;
    ListRegistry(ExporterRegistry(), &text);
    std::printf("%s", text.c_str());
    return absl::OkStatus();
  }
  for (const auto& [flag, value] :
       {std::make_pair("checkpoint", FLAGS_checkpoint), std::make_pair("format", FLAGS_format),
        std::make_pair("output", FLAGS_output)}) {
    if (!value.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag, " is missing; --help lists the flags"));
  }
  DING_ASSIGN_OR_RETURN(const FoundCheckpoint found, FindCheckpoint(FLAGS_checkpoint));
  if (!found.note.empty()) std::fprintf(stderr, "%s\n", found.note.c_str());
  std::fprintf(stderr, "exporting %s\n", found.path.c_str());
  const absl::StatusOr<std::vector<std::string>> files =
      ExportCheckpoint(found.path, FLAGS_format, FLAGS_output);
  if (absl::IsNotFound(files.status()) && FLAGS_format == "torchscript") {
    return absl::NotFoundError(
        absl::StrCat(files.status().message(),
                     " (torchscript needs the program with libtorch: //worker:export_torch)"));
  }
  DING_RETURN_IF_ERROR(files.status());
  for (const std::string& file : *files) std::printf("%s\n", file.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) {
  ding::InitProgram(&argc, &argv, ding::kHelp);
  const absl::Status status = ding::Export();
  return status.ok() ? 0 : ding::ReportFailure(status);
}
