// Sends the files of a run through a store, so that its machines need no shared folder
// (system.run_files: STORE).
//
//   a process ──► its own folder ── Publish(), once a second ──► store ── Fetch() ──► any folder
//
// The files are in a store of their own, beside the store of the run, which is emptied at its end:
//
//   <store_url>.files/owner              who goes on with the run: ParallelRunInfo.opening, and
//                                        "ended" when that coordinator has ended
//   <store_url>.files/file/<path>        a StoredFile: names the pieces, with sizes and checksums
//   <store_url>.files/blob/<id>/<p>-<n>  piece n of part p
//
// A checkpoint is one such file with several parts: it is there as a whole or not at all. A new
// version of a file gets pieces of its own; then its StoredFile is replaced, and the old pieces are
// deleted. A file that has only grown, such as a log, gets new pieces behind the full ones.
// Temporary files (".tmp.", ".old.", a leading '.') are left out.
//
// If two processes write the same path, the last one wins; but the coordinator never replaces a
// file of a worker, and a learner_resume never replaces one with more train iterations, so a
// learner that was stopped and replaced undoes nothing. If the store has
// lost its data, each process puts there again what its folder has.
//
// Ownership: owns the store and a thread. The folder is the caller's.
// Threads:   thread-safe.
// Errors:    as Store and base/file.h; also
//   kAborted   another coordinator goes on with the run: nothing is published any more
#ifndef DING_WORKER_WORKER_COORDINATION_RUN_FILES_H_
#define DING_WORKER_WORKER_COORDINATION_RUN_FILES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/worker/coordination/parallel_run.pb.h"
#include "ding_worker/worker/run_folder/save_outage.h"

namespace ding {

// Returns the URL of the store that has the files of the run whose store is at `store_url`.
std::string RunFilesUrl(absl::string_view store_url);

class RunFiles {
 public:
  static constexpr absl::Duration kPeriod = absl::Seconds(1);

  // `folder` is where this process has its files, and `writer` its name.
  RunFiles(std::unique_ptr<Store> store, std::string folder, std::string writer);
  RunFiles(const RunFiles&) = delete;
  RunFiles& operator=(const RunFiles&) = delete;
  ~RunFiles();

  // The coordinator that began or resumed the run last, and whether it has ended. If there was
  // none, `opening` is empty.
  struct Owner {
    std::string opening;
    bool ended = false;
  };
  absl::StatusOr<Owner> ReadOwner();
  // For the coordinator: from now on processes with another opening publish nothing.
  absl::Status Lead(const std::string& opening) ABSL_LOCKS_EXCLUDED(working_);

  // Brings the files that `wanted` accepts to the folder, where they replace what is there. A file
  // that is there already is not read again. After an error, other files are there nevertheless.
  absl::Status Fetch(const std::function<bool(const StoredFile&)>& wanted)
      ABSL_LOCKS_EXCLUDED(working_);
  // Does the same for one path. OK if the store does not have it.
  absl::Status FetchPath(const std::string& path) ABSL_LOCKS_EXCLUDED(working_);

  // Puts what has changed in the folder into the store.
  absl::Status Publish() ABSL_LOCKS_EXCLUDED(working_);
  // Publishes soon, and then every kPeriod.
  absl::Status Start();
  // OK while publishing succeeds, or has failed for less than SaveOutage::kPatience.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Publishes for the last time; tries again until it succeeds or `stop` returns true. If this
  // process leads, it notes that it has ended.
  absl::Status Finish(const std::function<bool()>& stop) ABSL_LOCKS_EXCLUDED(working_);
  // Removes all files from the store.
  absl::Status Clear();

 private:
  struct Unit {  // a file or a checkpoint in the folder
    bool checkpoint = false;
    std::string signature;  // changes with its content
  };
  struct Known {  // what the store has of it
    StoredFile file;
    std::string signature;  // of the unit at that time
    bool own = false;       // this object has published it
  };

  absl::Status PublishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(working_);
  absl::Status CheckOwner() ABSL_EXCLUSIVE_LOCKS_REQUIRED(working_);
  absl::Status PutUnit(const std::string& path, const Unit& unit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(working_);
  absl::Status PutPart(const std::string& source, int part, bool has_grown, StoredFile* file);
  absl::Status RemoveUnit(const Known& known);
  void DeletePieces(const StoredFile& file);
  absl::StatusOr<StoredFile> GetFile(const std::string& key);
  absl::Status Download(StoredFile file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(working_);
  absl::Status DownloadOnce(const StoredFile& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(working_);
  absl::Status DownloadPart(const StoredFile& file, int part, const std::string& path);
  absl::Status AppendTail(const StoredFile& file, const std::string& path);
  absl::Status GetPiece(const StoredFile& file, int part, int64_t piece, std::string* bytes);
  void StopThread() ABSL_LOCKS_EXCLUDED(mutex_);
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::unique_ptr<Store> store_;
  const std::string folder_;
  const std::string writer_;
  SaveOutage outage_;
  Mutex working_;  // held while files are published or fetched
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(working_);  // by path
  std::string opening_ ABSL_GUARDED_BY(working_);                 // empty: not known yet
  bool leads_ ABSL_GUARDED_BY(working_) = false;
  mutable Mutex mutex_;
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses the other members
};

struct FetchRunOptions {
  std::string store_url;  // of the run: redis:HOST:PORT/PREFIX/RUN
  std::string folder;     // absolute; new, or one to which this run was fetched before
  bool follow = false;    // goes on until the run has ended
  bool remove = false;    // removes the files from the store when they are in the folder
  std::function<bool()> interrupted = [] { return false; };
};
// Brings the files of a run to a folder. Blocks while `follow` is set.
//   kNotFound            the store has no files of this run
//   kUnavailable         the store is away, or the run has published nothing yet
//   kAlreadyExists       the folder has other files
//   kFailedPrecondition  a process of a run works in the folder; or the run has not ended, and
//                        `remove` is set
absl::Status FetchRun(const FetchRunOptions& options);

}  // namespace ding

#endif  // DING_WORKER_WORKER_COORDINATION_RUN_FILES_H_
