// LZ4 blocks. They are cheap enough for data that are read once.
#include <lz4.h>

#include <algorithm>

#include "ding_worker/interaction/store/compressed_store.h"

namespace ding {
namespace {

class Lz4Codec : public Codec {
 public:
  uint8_t id() const override { return 1; }
  size_t Compress(absl::string_view raw, absl::Span<char> to) const override {
    if (raw.size() > LZ4_MAX_INPUT_SIZE) return 0;
    const int written = LZ4_compress_default(raw.data(), to.data(), static_cast<int>(raw.size()),
                                             static_cast<int>(std::min(to.size(), raw.size())));
    return static_cast<size_t>(written) < raw.size() ? static_cast<size_t>(written) : 0;
  }
  bool Decompress(absl::string_view compressed, absl::Span<char> to) const override {
    if (compressed.size() > LZ4_MAX_INPUT_SIZE || to.size() > LZ4_MAX_INPUT_SIZE) return false;
    const int read =
        LZ4_decompress_safe(compressed.data(), to.data(), static_cast<int>(compressed.size()),
                            static_cast<int>(to.size()));
    return read >= 0 && static_cast<size_t>(read) == to.size();
  }
  // A byte of an encoded length stands for at most 255 bytes.
  uint64_t MaxRawBytes(size_t compressed_bytes) const override {
    return uint64_t{255} * compressed_bytes;
  }
};

DING_REGISTER(CodecRegistry(), "lz4", new Lz4Codec,
              "LZ4: cheap enough for data that are read once");

}  // namespace
}  // namespace ding
