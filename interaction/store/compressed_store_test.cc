#include "ding_worker/interaction/store/compressed_store.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/testing/store_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using internal_store::Unpack;
using testing::HasSubstr;

StoreMaker Compressed(const char* codec) {
  return [codec] {
    return std::make_unique<CompressedStore>(std::make_unique<MemStore>(),
                                             CodecRegistry().Find(codec).value(),
                                             std::string("mem:?compress=") + codec);
  };
}

INSTANTIATE_TEST_SUITE_P(Lz4, StoreConformance, testing::Values(Compressed("lz4")));
INSTANTIATE_TEST_SUITE_P(Zstd, StoreConformance, testing::Values(Compressed("zstd")));

class CompressedStoreTest : public testing::TestWithParam<const char*> {
 protected:
  // Returns what the store below holds after `value` is put.
  std::string Packed(const std::string& value) {
    MemStore below("compressed_store_test");
    CompressedStore store(std::make_unique<MemStore>("compressed_store_test"), &codec_, "mem:");
    EXPECT_THAT(store.Put("a", {value}), IsOk());
    std::string packed;
    EXPECT_THAT(below.Get("a", &packed), IsOk());
    return packed;
  }

  const Codec& codec_ = *CodecRegistry().Find(GetParam()).value();
};

INSTANTIATE_TEST_SUITE_P(Codecs, CompressedStoreTest, testing::Values("lz4", "zstd"));

std::string RandomBytes(size_t size) {
  Rng rng(1, "compressed_store_test");
  std::string bytes;
  for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>(rng.Next32()));
  return bytes;
}

TEST_P(CompressedStoreTest, CompressesRedundantValuesAndBarelyEnlargesOthers) {
  const std::string zeros(int64_t{3} << 20, '\0');
  const std::string packed = Packed(zeros);
  EXPECT_LT(packed.size(), zeros.size() / 200);
  std::string value;
  ASSERT_THAT(Unpack(packed, codec_, &value), IsOk());
  EXPECT_TRUE(value == zeros) << "MaxRawBytes() must allow the best compression";

  const std::string noise = RandomBytes(10000);
  EXPECT_EQ(Packed(noise).size(), noise.size() + 11);
  ASSERT_THAT(Unpack(Packed(noise), codec_, &value), IsOk());
  EXPECT_TRUE(value == noise);
}

TEST_P(CompressedStoreTest, InvalidValuesAreDataLoss) {
  std::string value;
  const std::string good = Packed(std::string(1000, 'x'));
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THAT(Unpack(good.substr(0, size), codec_, &value), StatusIs(absl::StatusCode::kDataLoss))
        << size;
  }
  for (const size_t byte : {3u, 4u, 7u}) {  // in the size of the value: 2^30, 2^38, 2^62
    std::string huge = good;
    huge[3 + byte] = 0x40;
    EXPECT_THAT(Unpack(huge, codec_, &value), StatusIs(absl::StatusCode::kDataLoss));
    EXPECT_LT(value.capacity(), 1u << 20) << "memory was allocated for it";
  }
  const char* const other = GetParam() == std::string("lz4") ? "zstd" : "lz4";
  EXPECT_THAT(Unpack(good, *CodecRegistry().Find(other).value(), &value),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("codec")));
}

TEST_P(CompressedStoreTest, Fuzz_Mutant_IsAValueWithinBoundsOrDataLoss) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "abcdefgh"[i * i % 8];
  const std::string good = Packed(text + RandomBytes(40) + text);
  std::map<absl::StatusCode, int> outcomes;
  Fuzz(10000, [&](Mutator* mutator) {
    const std::string bytes = mutator->Mutate(good);
    std::string value;
    const absl::Status status = Unpack(bytes, codec_, &value);
    ++outcomes[status.code()];
    EXPECT_LE(value.capacity(), 100 + 2 * codec_.MaxRawBytes(bytes.size()))
        << "memory was allocated in advance";
  });
  outcomes.erase(absl::StatusCode::kOk);
  EXPECT_EQ(outcomes.size(), 1u);
  EXPECT_GT(outcomes[absl::StatusCode::kDataLoss], 0);
}

}  // namespace
}  // namespace ding
