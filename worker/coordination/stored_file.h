// Functions for the files of a run in a store (run_files.h): their keys, pieces and checks.
//
// Threads: thread-safe (functions without state).
#ifndef DING_WORKER_WORKER_COORDINATION_STORED_FILE_H_
#define DING_WORKER_WORKER_COORDINATION_STORED_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/worker/coordination/parallel_run.pb.h"

namespace ding {

inline constexpr int64_t kMaxPieceBytes = int64_t{4} << 20;
// The keys of all files begin with it.
inline constexpr absl::string_view kStoredFilePrefix = "file/";

// Returns the key of a path in the run's folder. A character that a key cannot have becomes "_xx",
// in hexadecimal, and '_' becomes "__".
std::string StoredFileKey(absl::string_view path);
// Returns the key of piece `piece` of part `part`.
std::string PieceKey(const StoredFile& file, int part, int64_t piece);
int64_t PieceCount(const StoredFile& file, int part);
// Returns a name for pieces that no other process or machine invents.
std::string NewBlobName();

// Checks what comes from the store before it becomes a path of this machine: kDataLoss if it
// does not describe a file.
absl::Status CheckStoredFile(const StoredFile& file);

// Returns a text that changes with the content of a file, or of the files of a checkpoint; empty if
// `path` is neither.
std::string SignatureOf(const std::string& path, bool checkpoint);
// Whether the local file begins with the content of `part`.
bool BeginsWith(const std::string& path, const StoredFile::Part& part);
// Returns the size of a local file; -1 if there is none.
int64_t SizeOf(const std::string& path);

}  // namespace ding

#endif  // DING_WORKER_WORKER_COORDINATION_STORED_FILE_H_
