// The names of chunks and policies that workers put into the store. A chunk's number contains the number of
// the worker's incarnation and counts its chunks. So no two chunks have the same number, and a repeated
// announcement is recognised.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_CHUNK_KEY_H_
#define DING_WORKER_INTERACTION_CHUNK_KEY_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ding {

// `worker` is the number that the coordinator gave the worker (Welcome), below 2^31. `sequence` counts the
// chunks of the worker.
inline int64_t ChunkNumber(uint32_t worker, uint32_t sequence) {
  return static_cast<int64_t>(worker) << 32 | sequence;
}
inline uint32_t WorkerOfChunk(int64_t chunk) { return static_cast<uint32_t>(chunk >> 32); }

// The key in the store: "data/<worker>/<sequence>", with both numbers in hexadecimal.
inline std::string ChunkKey(int64_t chunk) {
  return absl::StrCat("data/", absl::Hex(WorkerOfChunk(chunk)), "/",
                      absl::Hex(static_cast<uint32_t>(chunk)));
}
// The key contains the learner's number, so a learner that was replaced and does not know it yet does not
// overwrite the policies of its successor.
inline std::string PolicyKey(absl::string_view policy_id, uint64_t version, uint32_t worker) {
  return absl::StrCat("policy/", policy_id, "/", version, "-", absl::Hex(worker));
}

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CHUNK_KEY_H_
