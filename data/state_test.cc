#include "ding_worker/data/state.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/tensor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Pair;

TEST(StateDict, EverythingRoundTrips) {
  StateDict state("test");
  Rng rng(3, "state_test");
  rng.Next32();
  ASSERT_THAT(state.WriteInt("int", -5), IsOk());
  ASSERT_THAT(state.WriteDouble("double", 0.1), IsOk());
  ASSERT_THAT(state.WriteString("string", "text\n"), IsOk());
  ASSERT_THAT(state.WriteString("empty", ""), IsOk());
  ASSERT_THAT(state.WriteRng("rng", rng), IsOk());
  ASSERT_THAT(state.WriteSpan<float>("span", {1, 2, 3}), IsOk());
  const Tensor tensor = Tensor::FromSpan<int32_t>({2, 2}, {1, 2, 3, 4});
  ASSERT_THAT(state.WriteTensor("tensor", tensor), IsOk());
  EXPECT_THAT(state.Names(),
              ElementsAre("int", "double", "string", "empty", "rng", "span", "tensor"));

  EXPECT_EQ(state.ReadInt("int").value(), -5);
  EXPECT_EQ(state.ReadDouble("double").value(), 0.1);
  EXPECT_EQ(state.ReadString("string").value(), "text\n");
  EXPECT_EQ(state.ReadString("empty").value(), "");
  Rng restored(1, "other");
  ASSERT_THAT(state.ReadRng("rng", &restored), IsOk());
  EXPECT_EQ(restored.Next64(), rng.Next64());
  std::vector<float> span(3);
  ASSERT_THAT(state.ReadSpan<float>("span", absl::MakeSpan(span)), IsOk());
  EXPECT_THAT(span, ElementsAre(1, 2, 3));
  EXPECT_TRUE(BitwiseEqual(state.ReadTensor("tensor").value(), tensor));
}

TEST(StateDict, PartsBecomeOneTensor) {
  StateDict state;
  ASSERT_THAT(state.Write("x", DType::kUint8, {6}, {"ab", "", "cdef"}), IsOk());
  EXPECT_EQ(state.ReadString("x").value(), "abcdef");
  std::string head(4, '\0'), tail(2, '\0');
  ASSERT_THAT(state.Read("x", {absl::MakeSpan(head), absl::MakeSpan(tail)}), IsOk());
  EXPECT_EQ(head + "|" + tail, "abcd|ef");
}

TEST(StateDict, WritesCopies) {
  StateDict state;
  Tensor tensor = Tensor::FromSpan<float>({1}, {1});
  ASSERT_THAT(state.WriteTensor("x", tensor), IsOk());
  tensor.mutable_data<float>()[0] = 2;
  EXPECT_EQ(state.ReadTensor("x")->data<float>()[0], 1);
}

TEST(StateDict, ErrorsNameTheTensorAndTheSource) {
  StateDict state("checkpoint 'c'");
  ASSERT_THAT(state.WriteInt("steps", 3), IsOk());
  EXPECT_THAT(state.WriteInt("steps", 4),
              IsError(absl::StatusCode::kAlreadyExists, "'steps'", "checkpoint 'c'"));
  const auto not_found = IsNotFound("checkpoint 'c' has no 'other'");
  EXPECT_THAT(state.ReadInt("other"), not_found);
  EXPECT_THAT(state.ReadTensor("other"), not_found);
  EXPECT_THAT(state.ReadString("other"), not_found);
  std::string bytes(1, '\0');
  EXPECT_THAT(state.Read("other", {absl::MakeSpan(bytes)}), not_found);
  EXPECT_THAT(state.Read("steps", {absl::MakeSpan(bytes)}), IsInvalid("has 8 bytes, expected 1"));
}

TEST(StateReader, AMismatchNamesTheFoundAndTheExpected) {
  StateDict state;
  ASSERT_THAT(state.WriteSpan<float>("weights", {1, 2}), IsOk());
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(state.ReadInt("weights"),
              StatusIs(kInvalid, "saved 'weights' is float32[2], expected 1 element of int64"));
  std::vector<float> three(3, 7);
  EXPECT_THAT(state.ReadSpan<float>("weights", absl::MakeSpan(three)),
              StatusIs(kInvalid, "saved 'weights' is float32[2], expected 3 elements of float32"));
  EXPECT_THAT(three, ElementsAre(7, 7, 7));
  EXPECT_THAT(state.ReadString("weights"), IsInvalid("of uint8"));
  Rng rng(1, "x");
  const Rng::State before = rng.state();
  EXPECT_THAT(state.ReadRng("weights", &rng), IsInvalid());
  EXPECT_EQ(rng.state(), before);
}

TEST(Scopes, NestAndListOnlyTheirOwnNames) {
  StateDict state;
  ScopedStateWriter outer(&state, "a");
  ScopedStateWriter inner(&outer, "b");
  ASSERT_THAT(outer.WriteInt("x", 1), IsOk());
  ASSERT_THAT(inner.WriteInt("x", 2), IsOk());
  ASSERT_THAT(state.WriteInt("x", 3), IsOk());
  ASSERT_THAT(state.WriteInt("ab/x", 4), IsOk());
  EXPECT_THAT(state.Names(), ElementsAre("a/x", "a/b/x", "x", "ab/x"));

  ScopedStateReader a(&state, "a");
  ScopedStateReader b(&a, "b");
  EXPECT_THAT(a.Names(), ElementsAre("x", "b/x"));
  EXPECT_THAT(b.Names(), ElementsAre("x"));
  EXPECT_EQ(a.ReadInt("x").value(), 1);
  EXPECT_EQ(b.ReadInt("x").value(), 2);
  EXPECT_THAT(b.ReadInt("y"), IsNotFound("'a/b/y'"));
}

TEST(StateDict, Write_PartsOfAnotherSize_IsRefused) {
  StateDict state;
  EXPECT_THAT(state.Write("x", DType::kFloat32, {2}, {"abcd"}),
              IsInvalid("'x', float32[2], is written"));
  EXPECT_THAT(state.Write("x", DType::kFloat32, {-1}, {}), IsInvalid("float32[-1]"));
}

TEST(Tensor, ZerosAreZeroAlignedAndWritable) {
  Tensor tensor = Tensor::Zeros(DType::kFloat32, {2, 3});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.raw_data()) % 64, 0u);
  EXPECT_EQ(tensor.num_elements(), 6);
  EXPECT_EQ(tensor.size_bytes(), 24);
  EXPECT_THAT(tensor.data<float>(), Each(0.0f));
  tensor.mutable_data<float>()[5] = 2;
  EXPECT_EQ(tensor.data<float>()[5], 2);
  EXPECT_EQ(tensor.DebugString(), "float32[2, 3]");
}

TEST(Tensor, HasNoElementsByDefault) {
  const Tensor tensor;
  EXPECT_EQ(tensor.num_elements(), 0);
  EXPECT_TRUE(tensor.data<float>().empty());
  EXPECT_TRUE(tensor.bytes().empty());
  EXPECT_TRUE(BitwiseEqual(tensor, tensor.Clone()));
}

TEST(Tensor, CopiesShareAndClonesDoNot) {
  Tensor tensor = Tensor::FromSpan<int64_t>({3}, {1, 2, 3});
  const Tensor copy = tensor;
  const Tensor clone = tensor.Clone();
  tensor.mutable_data<int64_t>()[0] = 9;
  EXPECT_THAT(copy.data<int64_t>(), ElementsAre(9, 2, 3));
  EXPECT_THAT(clone.data<int64_t>(), ElementsAre(1, 2, 3));
}

TEST(Tensor, StorageLivesAsLongAsTheLastCopy) {
  auto tensor = std::make_unique<Tensor>(Tensor::FromSpan<float>({2}, {1, 2}));
  const Tensor copy = *tensor;
  tensor.reset();
  EXPECT_THAT(copy.data<float>(), ElementsAre(1, 2));
}

TEST(Tensor, BitwiseEqualComparesTypeShapeAndBytes) {
  const Tensor a = Tensor::FromSpan<float>({2}, {1, NAN});
  EXPECT_TRUE(BitwiseEqual(a, a.Clone()));
  EXPECT_FALSE(BitwiseEqual(a, Tensor::FromSpan<float>({2}, {1, 2})));
  EXPECT_FALSE(BitwiseEqual(a, Tensor::FromSpan<float>({1, 2}, {1, NAN})));
  EXPECT_FALSE(
      BitwiseEqual(Tensor::Zeros(DType::kFloat32, {2}), Tensor::Zeros(DType::kInt32, {2})));
  EXPECT_FALSE(
      BitwiseEqual(Tensor::FromSpan<float>({1}, {0.0f}), Tensor::FromSpan<float>({1}, {-0.0f})));
}

TEST(TensorDeathTest, AWrongElementTypeOrCountEndsTheProgram) {
  const Tensor tensor = Tensor::Zeros(DType::kFloat32, {2});
  EXPECT_DEATH(tensor.data<double>(), "a float32 tensor read as float64");
  EXPECT_DEATH(Tensor::FromSpan<float>({3}, {1, 2}), "2 values for shape \\[3\\]");
}

TEST(TensorMap, KeepsTheOrderOfInsertion) {
  TensorMap map;
  map.Set("b", Tensor::Zeros(DType::kFloat32, {1}));
  map.Set("a", Tensor::Zeros(DType::kFloat32, {2}));
  map.Set("b", Tensor::Zeros(DType::kInt64, {3}));
  std::vector<std::string> names;
  for (const TensorMap::Entry& entry : map) names.push_back(entry.first);
  EXPECT_THAT(names, ElementsAre("b", "a"));
  EXPECT_EQ(map.size(), 2u);
  ASSERT_NE(map.Find("b"), nullptr);
  EXPECT_EQ(map.Find("b")->DebugString(), "int64[3]");
  EXPECT_EQ(map.Find("c"), nullptr);
}

TEST(NamedValues, KeepTheOrderOfFirstInsertion) {
  NamedValues values = {{"eps", 0.5}, {"alpha", 1}};
  values.Set("seed", 3);
  values.Set("eps", 0.25);
  const std::vector<NamedValues::Entry> entries(values.begin(), values.end());
  EXPECT_THAT(entries, ElementsAre(Pair("eps", 0.25), Pair("alpha", 1), Pair("seed", 3)));
  EXPECT_EQ(values.size(), 3u);
}

TEST(NamedValues, AMissingValueIsNullopt) {
  NamedValues values = {{"eps", 0}};
  EXPECT_EQ(values.Get("eps"), 0);
  EXPECT_EQ(values.Get("alpha"), std::nullopt);
  EXPECT_EQ(values.GetOr("alpha", 7), 7);
  EXPECT_EQ(values.GetOr("eps", 7), 0);
  values.Clear();
  EXPECT_TRUE(values.empty());
  EXPECT_EQ(values.Get("eps"), std::nullopt);
}

}  // namespace
}  // namespace ding
