// Names of what workers make. A chunk's number says which incarnation of which worker made it and
// in what order, so that no two are ever the same and a repeated announcement is recognised.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_CHUNK_KEY_H_
#define DING_WORKER_INTERACTION_CHUNK_KEY_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ding {

// `worker`: the number that the coordinator gave it (Welcome), below 2^31; `sequence`: of its chunks.
inline int64_t ChunkNumber(uint32_t worker, uint32_t sequence) {
  return static_cast<int64_t>(worker) << 32 | sequence;
}
inline uint32_t WorkerOfChunk(int64_t chunk) { return static_cast<uint32_t>(chunk >> 32); }

// In a store: "data/<worker>/<sequence>", numbers in hexadecimal.
inline std::string ChunkKey(int64_t chunk) {
  return absl::StrCat("data/", absl::Hex(WorkerOfChunk(chunk)), "/",
                      absl::Hex(static_cast<uint32_t>(chunk)));
}
// With the learner's number: one that was replaced, and does not know it yet, writes to no key of
// its successor.
inline std::string PolicyKey(absl::string_view policy_id, uint64_t version, uint32_t worker) {
  return absl::StrCat("policy/", policy_id, "/", version, "-", absl::Hex(worker));
}

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CHUNK_KEY_H_
