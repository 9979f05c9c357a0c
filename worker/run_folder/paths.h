// Makes paths from flags and configs absolute once, where they enter a program, so that they mean
// the same to every process of a run, in whatever folder it works, and later.
//
// A relative path is resolved from the current folder. `bazel run` starts a program in one of
// Bazel's folders, so the program first changes to the folder from which the person called `bazel
// run`.
//
// Threads: thread-safe, except for EnterCallersFolder().
//
// Example:
//   EnterCallersFolder();
//   DING_RETURN_IF_ERROR(MakeAbsolute({&FLAGS_checkpoint, &FLAGS_record_episodes}));
#ifndef DING_WORKER_WORKER_RUN_FOLDER_PATHS_H_
#define DING_WORKER_WORKER_RUN_FOLDER_PATHS_H_

#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// Returns `path` from the root, without "." and "..", and without slashes at its end. Symbolic
// links are kept, since other machines may know a folder only by that name; links before a ".." are
// followed. An empty path stays empty.
//   kFailedPrecondition  it is relative, and the current folder was removed or cannot be read
absl::StatusOr<std::string> AbsolutePath(absl::string_view path);

// Does the same for each of them, in place.
absl::Status MakeAbsolute(std::initializer_list<std::string*> paths);

// Does the same for the folder of "file:<folder>" and for files in settings, as "password_file".
// A string that is not the URL of a store stays as it is: opening the store reports the error.
absl::StatusOr<std::string> AbsoluteStoreUrl(absl::string_view url);

// Does the same for every path in a config, also in `params` of our modules, except those that are
// resolved from the run's folder. `python` is a path if it has a slash; else it is a name, which is
// looked up in PATH.
absl::Status MakePathsAbsolute(ExperimentConfig* config);

// For a config that a person has written: where a module of a Python env is in the current folder,
// adds that folder to `python_path`, so that a run that is resumed or evaluated from another folder
// finds the same module.
absl::Status KeepPythonFolders(ExperimentConfig* config);

// Returns the folder from which a person called `bazel run` for this program; empty: it was started
// otherwise.
std::string CallersFolder();
// Makes CallersFolder() the current folder, unless it is empty.
//   kNotFound, kPermissionDenied  it cannot be entered
absl::Status EnterCallersFolder();

// Returns `path` quoted as one word of a shell.
std::string ShellWord(absl::string_view path);

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_FOLDER_PATHS_H_
