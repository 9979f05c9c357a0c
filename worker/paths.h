// Paths that people give, as flags or in configs: made absolute once, where they enter a program, so
// that they mean the same to every process of a run, in whatever folder it works, and later.
//
// A relative path is seen from the current folder. Under `bazel run`, where that is a folder of
// Bazel's, the programs go to the folder of the person who called it first.
//
// Threads: thread-safe, but for EnterCallersFolder().
//
// Example:
//   EnterCallersFolder();
//   DING_RETURN_IF_ERROR(MakeAbsolute({&FLAGS_checkpoint, &FLAGS_record_episodes}));
#ifndef DING_WORKER_WORKER_PATHS_H_
#define DING_WORKER_WORKER_PATHS_H_

#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// `path` from the root, without "." and "..", without slashes at its end. Symbolic links stay, as
// other machines may know a folder by that name only; those before a ".." are followed. An empty path
// stays empty.
//   kFailedPrecondition  it is relative, and the current folder was removed or cannot be read
absl::StatusOr<std::string> AbsolutePath(absl::string_view path);

// The same for each of them, in place.
absl::Status MakeAbsolute(std::initializer_list<std::string*> paths);

// The same for the folder of "file:<folder>", and for the file of the setting "password_file". What is
// no URL of a store stays as it is: whoever opens it says so.
absl::StatusOr<std::string> AbsoluteStoreUrl(absl::string_view url);

// The same for every path in a config that is not seen from the run's folder. Fields in `params` belong
// to their modules and stay as they are.
absl::Status MakePathsAbsolute(ExperimentConfig* config);

// Where the person is who called `bazel run` for this program; empty: it was started otherwise.
std::string CallersFolder();
// Makes that the current folder, if there is one.
//   kNotFound, kPermissionDenied  it cannot be entered
absl::Status EnterCallersFolder();

// `path` as one word of a shell.
std::string ShellWord(absl::string_view path);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PATHS_H_
