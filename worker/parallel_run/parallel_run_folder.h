// The files that describe a parallel run in its folder, and what reads them. None of this needs a
// process of the run.
//
//   <exp_dir>/
//     total_config.textproto   the run's config
//     result.json              the result, once there is one
//     coordinator/
//       run.textproto     ParallelRunInfo: name of the run, and the address of its store
//       address           the address at which the coordinator listens
//       journal           state that survives the process (coordinator/journal/journal.h), unless the
//                         journal is in the store
//       saved/            what was in the store when the run came to an orderly end (saved_values.h)
//       saved.textproto   SavedRun: how much that is; written last
//
// Threads: thread-safe; files are written by the run's coordinator.
#ifndef DING_WORKER_WORKER_PARALLEL_RUN_PARALLEL_RUN_FOLDER_H_
#define DING_WORKER_WORKER_PARALLEL_RUN_PARALLEL_RUN_FOLDER_H_

#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/worker/parallel_run/parallel_run.pb.h"
#include "google/protobuf/message.h"

namespace ding {

// Paths of the files, relative to the run's folder.
namespace run_files {
inline constexpr char kConfig[] = "total_config.textproto";
inline constexpr char kResult[] = "result.json";
inline constexpr char kCoordinatorFolder[] = "coordinator";
inline constexpr char kInfo[] = "coordinator/run.textproto";
inline constexpr char kAddress[] = "coordinator/address";
inline constexpr char kJournal[] = "coordinator/journal";
inline constexpr char kSavedFolder[] = "coordinator/saved";
inline constexpr char kSaved[] = "coordinator/saved.textproto";
}  // namespace run_files

// Path of the result of the run in `exp_dir`, which exists once there is a result.
std::string ResultPath(const std::string& exp_dir);
// Returns the config of the run in `exp_dir`, as text.
absl::StatusOr<std::string> ReadRunConfig(const std::string& exp_dir);
// Returns the address of the run's coordinator. kNotFound: it does not listen yet.
absl::StatusOr<std::string> ReadRunAddress(const std::string& exp_dir);
//   kNotFound  there is no parallel run in `exp_dir`
//   kDataLoss  the file is damaged
absl::StatusOr<ParallelRunInfo> ReadRunInfo(const std::string& exp_dir);
// Returns how much an orderly end has saved.
//   kNotFound  the run has not come to an orderly end
//   kDataLoss  the file is damaged
absl::StatusOr<SavedRun> ReadSavedRun(const std::string& exp_dir);

// Returns the message as it is written to the files above.
std::string PrintRunFile(const google::protobuf::Message& message);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_RUN_PARALLEL_RUN_FOLDER_H_
