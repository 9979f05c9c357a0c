// A compression algorithm. Codecs register themselves (lz4_codec.cc, zstd_codec.cc), so that a program
// links only the libraries that it uses.
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

  // The id of the codec, which is stored in every value. It must not be 0, must never change, and must
  // never be used for another codec.
  virtual uint8_t id() const = 0;
  // Returns the number of bytes written to `to`, or 0 if the result is not smaller than `raw` or does
  // not fit in `to`.
  virtual size_t Compress(absl::string_view raw, absl::Span<char> to) const = 0;
  // Expands `compressed`, which may hold any bytes, into `to`. Returns whether it gives exactly
  // to.size() bytes.
  virtual bool Decompress(absl::string_view compressed, absl::Span<char> to) const = 0;
  // The most bytes to which `compressed_bytes` bytes can expand. It is checked before memory is
  // allocated for them.
  virtual uint64_t MaxRawBytes(size_t compressed_bytes) const = 0;
};

// The codecs by name: "lz4", "zstd".
Registry<const Codec*>& CodecRegistry();

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_CODEC_H_
