// The files that describe a parallel run in its folder, and where its data are. The functions work
// without any process of the run.
//
//   <exp_dir>/
//     total_config.textproto   the run's config
//     result.json              the result, once there is one
//     coordinator/
//       run.textproto     ParallelRunInfo: name of the run, and the address of its store
//       address           the address at which the coordinator listens
//       journal           state that survives the process (coordinator/journal/journal.h), unless
//                         the journal is in the store
//       saved/            what was in the store when the run came to an orderly end
//                         (parallel_run_data.h)
//       saved.textproto   SavedRun: how much that is; written last
//
// If the config names no store, the data are in the memory of this machine, in a folder of their
// own below RunMemoryBase() (run_memory.h). Otherwise they are in a folder of the config's store.
// If the run's journal is there too, so is a description of the run, for other machines. The files
// of the run may be in the store as well (run_files.h).
//
// Threads: thread-safe; files are written by the run's coordinator.
#ifndef DING_WORKER_WORKER_COORDINATION_PARALLEL_RUN_FOLDER_H_
#define DING_WORKER_WORKER_COORDINATION_PARALLEL_RUN_FOLDER_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/worker/coordination/parallel_run.pb.h"
#include "ding_worker/worker/experiment.pb.h"
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
// Returns how much the run saved at its orderly end.
//   kNotFound  the run has not come to an orderly end
//   kDataLoss  the file is damaged
absl::StatusOr<SavedRun> ReadSavedRun(const std::string& exp_dir);

// Returns the message as it is written to the files above.
std::string PrintRunFile(const google::protobuf::Message& message);

// Invents a readable name for the run in `exp_dir`, which is unique on this machine, and derives
// the place of its data. `store_url` is the config's value; empty: the memory of this machine.
ParallelRunInfo NameRun(const std::string& exp_dir, const std::string& store_url);

// The folder in the memory of this machine that has the data of runs whose config names no store.
std::string RunMemoryBase();

// Describes to people where the data are from which the run can continue.
std::string DescribePlace(const ParallelRunInfo& info);
// Returns the command that resumes the run in `exp_dir`.
std::string ResumeCommand(const std::string& exp_dir);

// The texts under the keys run/info and run/config of a store that also has the run's journal. They
// are for those who have access to the store, but not to the run's folder.
struct StoredDescription {
  ParallelRunInfo info;
  std::string config;  // text format
};
absl::Status PutDescription(const ParallelRunInfo& info, const ExperimentConfig& config,
                            Store* store);
//   kNotFound  the store has no run
//   kDataLoss  the description is damaged
absl::StatusOr<StoredDescription> GetDescription(const std::string& store_url);

// Calls `act`, and repeats this for up to 15 s as long as it returns kUnavailable or
// kUnauthenticated, such as while a Redis is being restarted or its password is being changed.
// Returns the last result. Used at the end of a run, and by a coordinator that replaces another
// one.
absl::Status RetryWhileStoreIsAway(const std::function<absl::Status()>& act);

}  // namespace ding

#endif  // DING_WORKER_WORKER_COORDINATION_PARALLEL_RUN_FOLDER_H_
