#include "ding_worker/data/tensor.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Each;
using testing::ElementsAre;

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

}  // namespace
}  // namespace ding
