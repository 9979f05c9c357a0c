#include "ding_worker/interaction/store/compressed_store.h"

#include <cstdint>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/bytes.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {
namespace {

constexpr absl::string_view kMagic = "DZ";
constexpr uint8_t kNotCompressed = 0;

std::string MakeHeader(uint8_t codec, size_t raw_size) {
  std::string header(kMagic);
  AppendNumber(codec, &header);
  AppendNumber(static_cast<uint64_t>(raw_size), &header);
  return header;
}

}  // namespace

CompressedStore::CompressedStore(std::unique_ptr<Store> store, const Codec* codec,
                                 absl::string_view url)
    : store_(std::move(store)), codec_(codec), url_(url) {}

std::unique_ptr<CompressedStore::Scratch> CompressedStore::TakeScratch() {
  MutexLock lock(&mutex_);
  if (scratch_.empty()) return std::make_unique<Scratch>();
  std::unique_ptr<Scratch> scratch = std::move(scratch_.back());
  scratch_.pop_back();
  return scratch;
}

void CompressedStore::ReturnScratch(std::unique_ptr<Scratch> scratch) {
  MutexLock lock(&mutex_);
  scratch_.push_back(std::move(scratch));
}

absl::Status CompressedStore::Put(absl::string_view key,
                                  absl::Span<const absl::string_view> pieces) {
  DING_ASSIGN_OR_RETURN(const int64_t size, CheckPut(*this, key, pieces));
  const auto raw_size = static_cast<size_t>(size);
  std::unique_ptr<Scratch> scratch = TakeScratch();
  const auto giver = absl::MakeCleanup([&] { ReturnScratch(std::move(scratch)); });
  scratch->raw.clear();
  scratch->raw.reserve(raw_size);
  for (const absl::string_view piece : pieces) scratch->raw.append(piece.data(), piece.size());
  // The buffer only grows, so that no byte is cleared twice.
  if (scratch->packed.size() < raw_size) scratch->packed.resize(raw_size);
  const absl::StatusOr<size_t> compressed = CallUser("the codec", [&]() -> absl::StatusOr<size_t> {
    const size_t packed =
        codec_->Compress(scratch->raw, absl::MakeSpan(&scratch->packed[0], raw_size));
    if (packed <= raw_size) return packed;
    return absl::InternalError(
        absl::StrCat("the codec says that it wrote ", packed, " bytes into ", raw_size));
  });
  if (!compressed.ok()) {
    return Annotate(compressed.status(), absl::StrCat("store '", url_, "': '", key, "'"));
  }
  const size_t packed = *compressed;
  const std::string header = MakeHeader(packed > 0 ? codec_->id() : kNotCompressed, raw_size);
  return store_->Put(key, {header, packed > 0 ? absl::string_view(scratch->packed).substr(0, packed)
                                              : absl::string_view(scratch->raw)});
}

absl::Status CompressedStore::Get(absl::string_view key, std::string* value) {
  std::unique_ptr<Scratch> scratch = TakeScratch();
  const auto giver = absl::MakeCleanup([&] { ReturnScratch(std::move(scratch)); });
  DING_RETURN_IF_ERROR(store_->Get(key, &scratch->raw));
  const absl::Status unpacked =
      CallUser("the codec", [&] { return internal_store::Unpack(scratch->raw, *codec_, value); });
  return Annotate(unpacked, absl::StrCat("store '", url_, "': '", key, "'"));
}

absl::Status internal_store::Unpack(absl::string_view packed, const Codec& codec,
                                    std::string* value) {
  ByteCursor cursor(packed);
  const absl::string_view magic = cursor.TakeBytes(kMagic.size());
  const auto id = cursor.Take<uint8_t>();
  const auto raw_size = cursor.Take<uint64_t>();
  if (!cursor.ok() || magic != kMagic) {
    return absl::DataLossError(
        absl::StrCat(packed.size(), " bytes that are not a value of a compressed store"));
  }
  const absl::string_view bytes = cursor.TakeBytes(cursor.left());
  if (id == kNotCompressed && raw_size == bytes.size()) {
    value->assign(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  if (id != codec.id()) {
    return absl::DataLossError(absl::StrCat("compressed by codec ", id, ", expected ", codec.id()));
  }
  if (raw_size <= kMaxValueBytes && raw_size <= codec.MaxRawBytes(bytes.size())) {
    value->resize(static_cast<size_t>(raw_size));
    if (codec.Decompress(bytes, absl::MakeSpan(*value))) return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(bytes.size(), " compressed bytes do not expand to ", raw_size, " bytes"));
}

Registry<const Codec*>& CodecRegistry() {
  static auto* const registry = new Registry<const Codec*>("codec");
  return *registry;
}

}  // namespace ding
