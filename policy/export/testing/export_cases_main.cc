// Writes a checkpoint of each case of policy/actor/testing to DIR/<case>/checkpoint, and exports it to
// DIR/<case>/<format> in all formats that are linked, for check_exports.py.
//   export_cases DIR
#include <cstdio>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"
#include "ding_worker/policy/actor/testing/actor_checkpoints.h"
#include "ding_worker/policy/export/exporter.h"

int main(int argc, char** argv) {
  DING_CHECK(argc == 2) << "usage: export_cases DIR";
  for (const ding::ActorCase& of : ding::ActorCases()) {
    const std::string folder = ding::JoinPath(argv[1], of.name);
    DING_CHECK(ding::CreateDirectories(folder).ok()) << folder;
    const std::string checkpoint = ding::JoinPath(folder, "checkpoint");
    ding::SaveActorCheckpoint(of, ding::MakeRandomPolicy(of).get(), checkpoint);
    for (const std::string& format : ding::ExporterRegistry().Names()) {
      const auto files =
          ding::ExportCheckpoint(checkpoint, format, ding::JoinPath(folder, format));
      DING_CHECK(files.ok()) << files.status();
      std::printf("%s %s\n", of.name.c_str(), format.c_str());
    }
  }
  return 0;
}
