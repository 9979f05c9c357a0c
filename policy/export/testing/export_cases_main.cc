// Writes a checkpoint of each case of policy/actor/testing to DIR/<case>/checkpoint, and exports it
// to DIR/<case>/<format> in all formats that are linked, for check_exports.py.
//   export_cases DIR
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"
#include "ding_worker/policy/actor/testing/actor_checkpoints.h"
#include "ding_worker/policy/export/exporter.h"
#include "ding_worker/policy/policy_registry.h"

namespace {

std::vector<ding::ActorCase> Cases() {
  std::vector<ding::ActorCase> cases = ding::ActorCases();
  if (!ding::NetworkRegistry().Find("torch_cnn").ok()) return cases;
  for (ding::ActorCase& of : ding::TorchActorCases()) cases.push_back(std::move(of));
  return cases;
}

void Export(const std::string& name, const std::string& folder) {
  for (const std::string& format : ding::ExporterRegistry().Names()) {
    const auto files = ding::ExportCheckpoint(ding::JoinPath(folder, "checkpoint"), format,
                                              ding::JoinPath(folder, format));
    // C source has no convolutions.
    if (format == "c" && absl::IsUnimplemented(files.status())) continue;
    DING_CHECK(files.ok()) << files.status();
    std::printf("%s %s\n", name.c_str(), format.c_str());
  }
}

std::string MakeFolder(const std::string& root, const std::string& name) {
  std::string folder = ding::JoinPath(root, name);
  DING_CHECK(ding::CreateDirectories(folder).ok()) << folder;
  return folder;
}

}  // namespace

int main(int argc, char** argv) {
  DING_CHECK(argc == 2) << "usage: export_cases DIR";
  for (const ding::ActorCase& of : Cases()) {
    const std::string folder = MakeFolder(argv[1], of.name);
    ding::SaveActorCheckpoint(of, ding::MakeRandomPolicy(of).get(),
                              ding::JoinPath(folder, "checkpoint"));
    Export(of.name, folder);
  }
  const std::string tanh = MakeFolder(argv[1], "Tanh");
  ding::SaveHeadCheckpoint("tanh", {"mean"}, ding::JoinPath(tanh, "checkpoint"));
  Export("Tanh", tanh);
  const std::string normal = MakeFolder(argv[1], "TanhNormal");
  ding::SaveHeadCheckpoint("tanh_normal", {"mean", "log_std"},
                           ding::JoinPath(normal, "checkpoint"));
  Export("TanhNormal", normal);
  return 0;
}
