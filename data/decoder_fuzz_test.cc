// Mutated messages, files and manifests: whatever the bytes, a decoder returns, within bounds, a
// value or an error. Run it under a sanitizer. DING_FUZZ_ROUNDS sets how many mutants of each kind
// are tried (ordinarily 10000), DING_FUZZ_SEED where they begin.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/safetensors.h"
#include "ding_worker/data/wire.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

uint64_t FromEnv(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  uint64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// Makes mutants of a well-formed text: bytes, numbers and structure.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : rng_(seed, "decoder_fuzz_test") {}

  std::string Mutate(std::string bytes) {
    for (uint64_t left = 1 + rng_.UniformInt(4); left > 0; --left) MutateOnce(&bytes);
    return bytes;
  }
  bool Coin() { return rng_.UniformInt(2) == 0; }

 private:
  size_t Place(const std::string& bytes) { return rng_.UniformInt(bytes.size() + 1); }

  void MutateOnce(std::string* bytes) {
    const size_t at = Place(*bytes);
    const size_t length = std::min<size_t>(rng_.UniformInt(40), bytes->size() - at);
    switch (rng_.UniformInt(8)) {
      case 0:
        if (at < bytes->size())
          (*bytes)[at] = static_cast<char>((*bytes)[at] ^ 1 << rng_.UniformInt(8));
        break;
      case 1:
        if (at < bytes->size()) (*bytes)[at] = static_cast<char>(rng_.Next32());
        break;
      case 2:
        bytes->erase(at, length);
        break;
      case 3:
        bytes->insert(at, bytes->substr(Place(*bytes), length));
        break;
      case 4:
        bytes->resize(at);
        break;
      case 5:
        OverwriteNumber(at, bytes);
        break;
      case 6:
        ReplaceDigits(at, bytes);
        break;
      default:
        bytes->insert(at, kTokens[rng_.UniformInt(std::size(kTokens))]);
    }
  }

  // A binary number that sizes are afraid of.
  void OverwriteNumber(size_t at, std::string* bytes) {
    const uint64_t interesting[] = {
        0,          1,          0x7f,       0xff,         0x7fffffff,   0xffffffff,
        1ull << 32, 1ull << 62, 1ull << 63, ~uint64_t{0}, rng_.Next64()};
    const uint64_t value = interesting[rng_.UniformInt(std::size(interesting))];
    const size_t width = size_t{1} << rng_.UniformInt(4);
    if (at + width <= bytes->size()) std::memcpy(&(*bytes)[at], &value, width);
  }

  // A number in a text, at or after `at`.
  void ReplaceDigits(size_t at, std::string* bytes) {
    static constexpr char kDigits[] = "0123456789";
    const size_t begin = bytes->find_first_of(kDigits, at);
    if (begin == std::string::npos) return;
    size_t end = bytes->find_first_not_of(kDigits, begin);
    if (end == std::string::npos) end = bytes->size();
    bytes->replace(begin, end - begin, kNumbers[rng_.UniformInt(std::size(kNumbers))]);
  }

  static constexpr const char* kNumbers[] = {"0",
                                             "1",
                                             "7",
                                             "8",
                                             "-1",
                                             "1e3",
                                             "0.5",
                                             "4294967296",
                                             "9223372036854775807",
                                             "9223372036854775808",
                                             "18446744073709551615",
                                             "99999999999999999999999",
                                             "1e999"};
  static constexpr const char* kTokens[] = {
      "{",
      "}",
      "[",
      "]",
      ",",
      ":",
      "\"",
      "\\",
      "\\u0000",
      "\\ud800",
      "null",
      "true",
      "{}",
      "[]",
      "\"\"",
      "\"dtype\":\"F64\",",
      "\"shape\":[0],",
      "\"data_offsets\":[0,0],",
      "[[[[[[[[[[[[[",
      "\"name\":\"x.safetensors\",",
      "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"};

  Rng rng_;
};

// Calls `check(mutator)` for every round, with the seed in the trace of a failure.
template <typename Check>
void Fuzz(Check check) {
  const uint64_t first = FromEnv("DING_FUZZ_SEED", 0);
  const uint64_t rounds = FromEnv("DING_FUZZ_ROUNDS", 10000);
  for (uint64_t seed = first; seed < first + rounds; ++seed) {
    SCOPED_TRACE(testing::Message() << "DING_FUZZ_SEED=" << seed << " DING_FUZZ_ROUNDS=1");
    Mutator mutator(seed);
    check(&mutator);
    if (testing::Test::HasFailure()) return;
  }
}

// How often each outcome occurred: a fuzzer whose mutants are all alike tests nothing.
using Outcomes = std::map<absl::StatusCode, int>;

void ExpectVaried(const Outcomes& outcomes, size_t at_least) {
  if (std::getenv("DING_FUZZ_ROUNDS") != nullptr) return;
  EXPECT_GE(outcomes.size(), at_least);
  for (const auto& [code, count] : outcomes) {
    EXPECT_TRUE(code == absl::StatusCode::kOk || code == absl::StatusCode::kDataLoss ||
                code == absl::StatusCode::kInvalidArgument ||
                code == absl::StatusCode::kFailedPrecondition ||
                code == absl::StatusCode::kUnimplemented)
        << count << " times " << absl::StatusCodeToString(code);
  }
}

TEST(DecoderFuzz, Wire) {
  FieldSpec frames = Box("obs/camera", {2, 3});
  frames.frame_stack_axis = 0;
  const SpecPtr spec =
      MakeSpec({Box("obs", {2}, {-1}, {1}), frames, Discrete("action", 3)}).value();
  BatchBuilder builder = BatchBuilder::Create(spec, 3).value();
  for (int i = 0; i < spec->size(); ++i) {
    std::memset(builder.view().raw_column(i), 1, static_cast<size_t>(3 * spec->row_bytes(i)));
  }
  const std::string good = EncodedBatch(std::move(builder).Seal(3)).ToString();
  BlockPool pool(spec);
  Outcomes outcomes;
  Fuzz([&](Mutator* mutator) {
    std::string bytes = mutator->Mutate(good.substr(0, good.size() - 4));
    const uint32_t crc = Crc32c(bytes);
    bytes.append(reinterpret_cast<const char*>(&crc), 4);
    const absl::StatusOr<Batch> batch = DecodeBatch(bytes);
    ++outcomes[batch.status().code()];
    const absl::StatusOr<Batch> pooled = DecodeBatch(bytes, &pool);
    if (pooled.ok()) {
      EXPECT_TRUE(batch.ok());
    }
    if (!batch.ok()) return;
    // What was taken is a batch: it says the same when it is encoded and decoded again.
    EXPECT_LE(batch->rows() * batch->spec().row_bytes(), static_cast<int64_t>(bytes.size()));
    const std::string again = EncodedBatch(*batch).ToString();
    const absl::StatusOr<Batch> second = DecodeBatch(again);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(EncodedBatch(*second).ToString() == again, true);
  });
  ExpectVaried(outcomes, 3);
}

TEST(DecoderFuzz, Safetensors) {
  const std::string path = JoinPath(FreshTestFolder(), "f.safetensors");
  const auto save = [](StateWriter* writer) {
    DING_RETURN_IF_ERROR(writer->WriteInt("steps", 7));
    DING_RETURN_IF_ERROR(writer->WriteSpan<float>("net/w", {1, 2, 3}));
    return writer->WriteString("text", "abc");
  };
  ASSERT_TRUE(WriteSafetensors(path, save, {{"key", "value"}}).ok());
  const std::string good = ReadFile(path).value();
  Outcomes outcomes;
  Fuzz([&](Mutator* mutator) {
    std::string bytes = mutator->Mutate(good);
    if (mutator->Coin()) {  // Only the header is bad, and its length fits.
      uint64_t length;
      std::memcpy(&length, good.data(), sizeof(length));
      const std::string header = mutator->Mutate(good.substr(8, length));
      length = header.size();
      bytes = std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header +
              good.substr(good.size() - 23);
    }
    OverwriteFile(path, bytes);
    const auto reader = SafetensorsReader::Open(path);
    ++outcomes[reader.status().code()];
    if (!reader.ok()) return;
    int64_t total = 0;
    for (const std::string& name : (*reader)->Names()) {
      const absl::StatusOr<Tensor> tensor = (*reader)->ReadTensor(name);
      ASSERT_TRUE(tensor.ok()) << tensor.status();
      total += tensor->size_bytes();
    }
    EXPECT_LE(total, static_cast<int64_t>(bytes.size()));
  });
  ExpectVaried(outcomes, 3);
}

TEST(DecoderFuzz, Manifest) {
  using internal_data::DecodeManifest;
  using internal_data::EncodeManifest;
  using internal_data::ManifestEnd;
  const std::string good =
      EncodeManifest({{"train", {{"iteration", "12"}, {"note", "a \"b\""}}},
                      {{"model.safetensors", 123, 0xdeadbeef}, {"x.safetensors", 4, 5}}})
          .value();
  Outcomes outcomes;
  Fuzz([&](Mutator* mutator) {
    std::string text = mutator->Mutate(good);
    if (mutator->Coin()) {
      text = mutator->Mutate(good.substr(0, good.size() - ManifestEnd("").size()));
      text += ManifestEnd(text);
    }
    const auto manifest = DecodeManifest(text);
    ++outcomes[manifest.status().code()];
    if (!manifest.ok()) return;
    for (const auto& file : manifest->files) EXPECT_EQ(file.name.find('/'), std::string::npos);
    EXPECT_TRUE(EncodeManifest(*manifest).ok());
  });
  ExpectVaried(outcomes, 3);
}

}  // namespace
}  // namespace ding
