// Zstandard frames at the default level. They are smaller than LZ4 blocks, for stores over a slow
// network.
#include <zstd.h>

#include "ding_worker/interaction/store/compressed_store.h"

namespace ding {
namespace {

class ZstdCodec : public Codec {
 public:
  uint8_t id() const override { return 2; }
  size_t Compress(absl::string_view raw, absl::Span<char> to) const override {
    const size_t written =
        ZSTD_compress(to.data(), to.size(), raw.data(), raw.size(), ZSTD_CLEVEL_DEFAULT);
    return ZSTD_isError(written) || written >= raw.size() ? 0 : written;
  }
  bool Decompress(absl::string_view compressed, absl::Span<char> to) const override {
    const size_t read = ZSTD_decompress(to.data(), to.size(), compressed.data(), compressed.size());
    return !ZSTD_isError(read) && read == to.size();
  }
  // A block has at least 4 bytes, and expands to at most 128 KiB.
  uint64_t MaxRawBytes(size_t compressed_bytes) const override {
    return uint64_t{ZSTD_BLOCKSIZE_MAX} * (compressed_bytes / 4);
  }
};

DING_REGISTER(CodecRegistry(), "zstd", new ZstdCodec,
              "Zstandard: smaller than lz4, for stores over a slow network");

}  // namespace
}  // namespace ding
