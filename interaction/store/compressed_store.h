// A store that compresses the values that it puts into another store.
//
//     Put ──► compress ──► store        "DZ" | codec u8, 0: not compressed | size of the value u64 |
//     Get ◄── expand ◄──── store        bytes
//
// A value that compression does not make smaller is stored uncompressed. The store below detects
// damaged values; the sizes in its values are checked again before memory is allocated.
//
// Ownership: owns the store below; the codec lives for ever, like all of CodecRegistry().
// Threads:   thread-safe. Each concurrent call uses a scratch buffer, which is kept and grows to
//            the size of the largest values.
// Errors:    as the store below. Get also returns kDataLoss if the bytes are not a value of a
//            compressed store, or were compressed by another codec.
#ifndef DING_WORKER_INTERACTION_STORE_COMPRESSED_STORE_H_
#define DING_WORKER_INTERACTION_STORE_COMPRESSED_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

// A compression algorithm. Codecs register themselves (lz4_codec.cc, zstd_codec.cc), so that a
// program links only the libraries that it uses. Thread-safe.
class Codec {
 public:
  virtual ~Codec() = default;

  // The id of the codec, which is stored in every value. It must not be 0, must never change, and
  // must never be used for another codec.
  virtual uint8_t id() const = 0;
  // Returns the number of bytes written to `to`, or 0 if the result is not smaller than `raw` or
  // does not fit in `to`.
  virtual size_t Compress(absl::string_view raw, absl::Span<char> to) const = 0;
  // Expands `compressed`, which may hold any bytes, into `to`. Returns whether the result has
  // exactly to.size() bytes.
  virtual bool Decompress(absl::string_view compressed, absl::Span<char> to) const = 0;
  // The most bytes to which `compressed_bytes` bytes can expand. It is checked before memory is
  // allocated for them.
  virtual uint64_t MaxRawBytes(size_t compressed_bytes) const = 0;
};

// The codecs by name: "lz4", "zstd".
Registry<const Codec*>& CodecRegistry();

class CompressedStore : public Store {
 public:
  CompressedStore(std::unique_ptr<Store> store, const Codec* codec, absl::string_view url);

  absl::Status Put(absl::string_view key, absl::Span<const absl::string_view> pieces) override;
  absl::Status Get(absl::string_view key, std::string* value) override;
  absl::Status Delete(absl::string_view key) override { return store_->Delete(key); }
  absl::StatusOr<std::vector<std::string>> List(absl::string_view prefix) override {
    return store_->List(prefix);
  }
  absl::Status Clear() override { return store_->Clear(); }
  absl::StatusOr<std::unique_ptr<Log>> OpenLog(const LogOptions& options) override {
    return store_->OpenLog(options);
  }
  const std::string& url() const override { return url_; }

 private:
  // The buffers of one call.
  struct Scratch {
    std::string raw;
    std::string packed;
  };

  std::unique_ptr<Scratch> TakeScratch() ABSL_LOCKS_EXCLUDED(mutex_);
  void ReturnScratch(std::unique_ptr<Scratch> scratch) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::unique_ptr<Store> store_;
  const Codec* const codec_;
  const std::string url_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> scratch_ ABSL_GUARDED_BY(mutex_);
};

namespace internal_store {

// Stores the value that `packed` holds in `value`. Returns kDataLoss if it holds none.
absl::Status Unpack(absl::string_view packed, const Codec& codec, std::string* value);

}  // namespace internal_store

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_COMPRESSED_STORE_H_
