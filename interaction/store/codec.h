// A way to make bytes smaller. Codecs register themselves (lz4_codec.cc, zstd_codec.cc), so that a
// program links only the libraries that it uses.
//
// Threads: thread-safe.
#ifndef DING_WORKER_INTERACTION_STORE_CODEC_H_
#define DING_WORKER_INTERACTION_STORE_CODEC_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"

namespace ding {

class Codec {
 public:
  virtual ~Codec() = default;

  // Stands in every value: never to be changed, or used again. Not 0.
  virtual uint8_t id() const = 0;
  // The bytes that Compress() wrote; 0: they are not less than `raw.size()`, or `to` has no room.
  virtual size_t Compress(absl::string_view raw, absl::Span<char> to) const = 0;
  // Whether `compressed`, whatever its bytes, gives exactly to.size() bytes, which are then in `to`.
  virtual bool Decompress(absl::string_view compressed, absl::Span<char> to) const = 0;
  // What that many compressed bytes can give at most: before memory is taken for it.
  virtual uint64_t MaxRawBytes(size_t compressed_bytes) const = 0;
};

// By name: "lz4", "zstd".
Registry<const Codec*>& CodecRegistry();

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_CODEC_H_
