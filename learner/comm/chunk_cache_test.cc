#include "ding_worker/learner/comm/chunk_cache.h"

#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/segment_wire.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/learner/comm/item_loader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// A chunk of one segment of that many rows.
std::string ChunkBytes(int64_t length) {
  const auto fill = [](const SpecPtr& spec, int64_t rows) {
    BatchBuilder builder = BatchBuilder::Create(spec, rows).value();
    for (int field = 0; field < spec->size(); ++field) {
      const absl::Span<std::byte> column(builder.view().raw_column(field),
                                         static_cast<size_t>(rows * spec->row_bytes(field)));
      std::fill(column.begin(), column.end(), std::byte{0});
    }
    return std::move(builder).Seal(rows);
  };
  SegmentBatch data;
  data.rows = fill(
      MakeSpec({Box("obs", {4}), Discrete("action", 2), Scalar("reward", DType::kFloat32)}).value(),
      length);
  data.final_obs = fill(MakeSpec({Box("obs", {4})}).value(), 1);
  data.segments = {{0, 0, 0, length, SegmentEnd::kTerminated}};
  std::string bytes;
  const EncodedSegments encoded(data);
  for (const absl::string_view piece : encoded.pieces()) absl::StrAppend(&bytes, piece);
  return bytes;
}

Batch FirstRowOf(int64_t chunk) {
  BatchBuilder builder =
      BatchBuilder::Create(
          MakeSpec({Scalar("chunk", DType::kInt64), Scalar("row", DType::kInt64),
                    Scalar("length", DType::kInt64), Scalar("replay_unique_id", DType::kInt64)})
              .value(),
          1)
          .value();
  const int64_t values[] = {chunk, 0, 1, chunk};
  for (int field = 0; field < 4; ++field) builder.column<int64_t>(field)[0] = values[field];
  return std::move(builder).Seal(1);
}

// A sanitizer's own malloc() reports no bytes.
TEST(ChunkCacheTest, Insert_ChunksOfAnyLength_MemoryStaysWithinTheBound) {
  for (const uint64_t longest : {1, 10, 200}) {
    SCOPED_TRACE(longest);
    MemStore store;
    ItemLoaderOptions options;
    options.cache_bytes = int64_t{2} << 20;
    const auto loader = ItemLoader::Create(&store, options).value();
    Rng rng(longest, "chunks");
    std::vector<std::string> chunks;
    for (int i = 0; i < 100; ++i) {
      chunks.push_back(ChunkBytes(1 + static_cast<int64_t>(rng.UniformInt(longest))));
    }
    const size_t before = mallinfo2().uordblks;
    for (int64_t number = 0; number < 12'000; ++number) {
      const std::string key = ChunkKey(number);
      ASSERT_THAT(store.Put(key, {chunks[static_cast<size_t>(number) % chunks.size()]}), IsOk());
      ASSERT_THAT(loader->Load(FirstRowOf(number)), IsOk());
      ASSERT_THAT(store.Delete(key), IsOk());
    }
    const size_t after = mallinfo2().uordblks;
    EXPECT_GT(loader->cached_bytes(), options.cache_bytes * 9 / 10) << "it is full";
    EXPECT_LT(static_cast<double>(after),
              static_cast<double>(before) + 1.15 * static_cast<double>(options.cache_bytes));
  }
}

// A learner with a small buffer reads chunks for as long as it learns. Those that have left the
// buffer are never drawn again.
TEST(ChunkCacheTest, Insert_MoreRowsThanTheBound_OldestChunksLeave) {
  ChunkCache cache(/*max_bytes=*/int64_t{1} << 30, /*max_rows=*/100);
  for (int64_t number = 0; number < 50; ++number) {
    cache.Insert(number,
                 std::make_shared<const DecodedChunk>(DecodeSegments(ChunkBytes(20)).value()));
  }
  std::vector<int64_t> numbers(50);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<ChunkCache::ChunkPtr> found(numbers.size());
  cache.Find(numbers, absl::MakeSpan(found));
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i] != nullptr, i >= 45) << i;
  EXPECT_LT(cache.bytes(), 6 * found.back()->bytes());
}

}  // namespace
}  // namespace ding
