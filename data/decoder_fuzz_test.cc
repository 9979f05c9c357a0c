// Feeds decoders with mutated messages, files and manifests: whatever the bytes are, a decoder
// returns a value or an error and stays within bounds. Run it under a sanitizer;
// base/fuzz_testing.h says how to try more mutants.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/safetensors.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/segment_wire.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/data/wire.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr uint64_t kRounds = 10000;

// The count of each outcome: a fuzzer whose mutants all have one outcome tests nothing.
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
  Fuzz(kRounds, [&](Mutator* mutator) {
    const std::string bytes = WithChecksum(mutator->Mutate(good));
    const absl::StatusOr<Batch> batch = DecodeBatch(bytes);
    ++outcomes[batch.status().code()];
    const absl::StatusOr<Batch> pooled = DecodeBatch(bytes, &pool);
    if (pooled.ok()) {
      EXPECT_TRUE(batch.ok());
    }
    if (!batch.ok()) return;
    // An accepted batch is equal after it is encoded and decoded again.
    EXPECT_LE(batch->rows() * batch->spec().row_bytes(), static_cast<int64_t>(bytes.size()));
    const std::string again = EncodedBatch(*batch).ToString();
    const absl::StatusOr<Batch> second = DecodeBatch(again);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(EncodedBatch(*second).ToString() == again, true);
  });
  ExpectVaried(outcomes, 3);
}

TEST(DecoderFuzz, StateWire) {
  const std::string good = EncodeState([](StateWriter* writer) {
                             DING_RETURN_IF_ERROR(writer->WriteInt("steps", 7));
                             DING_RETURN_IF_ERROR(writer->WriteSpan<float>("net/w", {1, 2, 3}));
                             return writer->WriteString("text", "abc");
                           })
                               .value()
                               .ToString();
  Outcomes outcomes;
  Fuzz(kRounds, [&](Mutator* mutator) {
    const std::string bytes = WithChecksum(mutator->Mutate(good));
    const auto state = DecodeState(bytes, "a mutant");
    ++outcomes[state.status().code()];
    if (!state.ok()) return;
    int64_t total = 0;
    for (const std::string& name : (*state)->Names()) {
      const absl::StatusOr<Tensor> tensor = (*state)->ReadTensor(name);
      ASSERT_TRUE(tensor.ok()) << tensor.status();
      total += tensor->size_bytes();
    }
    EXPECT_LE(total, static_cast<int64_t>(bytes.size()));
  });
  ExpectVaried(outcomes, 3);
}

TEST(DecoderFuzz, Items) {
  const SpecPtr spec =
      MakeSpec({Scalar(kColumnChunk, DType::kInt64), Scalar(kColumnRow, DType::kInt64),
                Scalar(kColumnLength, DType::kInt64), Scalar("priority", DType::kFloat32)})
          .value();
  BatchBuilder builder = BatchBuilder::Create(spec, 3).value();
  for (size_t i = 0; i < 3; ++i) {
    builder.column<int64_t>(0)[i] = 5;
    builder.column<int64_t>(1)[i] = static_cast<int64_t>(i);
    builder.column<int64_t>(2)[i] = 1;
    builder.column<float>(3)[i] = 0.5f;
  }
  const std::string good = EncodedBatch(std::move(builder).Seal(3)).ToString();
  Outcomes outcomes;
  Fuzz(kRounds, [&](Mutator* mutator) {
    const absl::StatusOr<Batch> batch = DecodeBatch(WithChecksum(mutator->Mutate(good)));
    if (!batch.ok()) return;
    const absl::StatusOr<SegmentBatch> items = MakeItems(*batch);
    ++outcomes[items.status().code()];
    if (!items.ok()) return;
    EXPECT_TRUE(IsItems(items->rows.spec()));
    EXPECT_EQ(items->rows.rows(), batch->rows());
    for (const int64_t row : items->rows.column<int64_t>(kColumnRow)) EXPECT_GE(row, 0);
    for (const int64_t length : items->rows.column<int64_t>(kColumnLength)) EXPECT_GE(length, 1);
  });
  ExpectVaried(outcomes, 2);
}

// Mutates the parts and the header.
TEST(DecoderFuzz, Segments) {
  SegmentBatch data;
  const auto zeros = [](std::vector<FieldSpec> fields, int64_t rows) {
    const SpecPtr spec = MakeSpec(std::move(fields)).value();
    BatchBuilder builder = BatchBuilder::Create(spec, rows).value();
    for (int i = 0; i < spec->size(); ++i) {
      std::memset(builder.view().raw_column(i), 0, static_cast<size_t>(rows * spec->row_bytes(i)));
    }
    return std::move(builder).Seal(rows);
  };
  data.rows = zeros({Box("obs", {2}), Discrete("action", 3)}, 4);
  data.final_obs = zeros({Box("obs", {2})}, 2);
  data.segments = {{1, 2, 0, 3, SegmentEnd::kCut}, {2, 5, 3, 1, SegmentEnd::kTerminated}};
  const std::string good = EncodedSegments(data).ToString();
  constexpr size_t kHeaderBytes = 32;
  uint64_t sizes[3];
  std::memcpy(sizes, &good[8], sizeof(sizes));
  BlockPool rows(data.rows.spec_ptr());
  BlockPool final_obs(data.final_obs.spec_ptr());
  Outcomes outcomes;
  Fuzz(kRounds, [&](Mutator* mutator) {
    std::string header = good.substr(0, 8);
    std::string parts;
    size_t begin = kHeaderBytes;
    for (const uint64_t size : sizes) {
      std::string part = good.substr(begin, size);
      begin += size;
      if (mutator->Coin()) part = mutator->Mutate(part);
      const uint64_t new_size = part.size();
      header.append(reinterpret_cast<const char*>(&new_size), sizeof(new_size));
      parts += part;
    }
    if (mutator->Coin()) header = mutator->Mutate(header);
    const std::string bytes = header + parts;
    const absl::StatusOr<SegmentBatch> decoded = DecodeSegments(bytes);
    ++outcomes[decoded.status().code()];
    if (DecodeSegments(bytes, &rows, &final_obs).ok()) {
      EXPECT_TRUE(decoded.ok());
    }
    if (!decoded.ok()) return;
    EXPECT_TRUE(ValidateSegments(*decoded).ok());
    const absl::StatusOr<SegmentBatch> again = DecodeSegments(EncodedSegments(*decoded).ToString());
    ASSERT_TRUE(again.ok()) << again.status();
  });
  ExpectVaried(outcomes, 4);
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
  Fuzz(kRounds, [&](Mutator* mutator) {
    std::string bytes = mutator->Mutate(good);
    if (mutator->Coin()) {  // Damage the header only and keep its length right.
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
  Fuzz(kRounds, [&](Mutator* mutator) {
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
