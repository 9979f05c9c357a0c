#include "ding_worker/data/state.h"

#include <string>
#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

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
              StatusIs(absl::StatusCode::kAlreadyExists,
                       AllOf(HasSubstr("'steps'"), HasSubstr("checkpoint 'c'"))));
  const auto not_found =
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("checkpoint 'c' has no 'other'"));
  EXPECT_THAT(state.ReadInt("other"), not_found);
  EXPECT_THAT(state.ReadTensor("other"), not_found);
  EXPECT_THAT(state.ReadString("other"), not_found);
  std::string bytes(1, '\0');
  EXPECT_THAT(state.Read("other", {absl::MakeSpan(bytes)}), not_found);
  EXPECT_THAT(state.Read("steps", {absl::MakeSpan(bytes)}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has 8 bytes, expected 1")));
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
  EXPECT_THAT(state.ReadString("weights"), StatusIs(kInvalid, HasSubstr("of uint8")));
  Rng rng(1, "x");
  const Rng::State before = rng.state();
  EXPECT_THAT(state.ReadRng("weights", &rng), StatusIs(kInvalid));
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
  EXPECT_THAT(b.ReadInt("y"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'a/b/y'")));
}

TEST(StateDict, Write_PartsOfAnotherSize_IsRefused) {
  StateDict state;
  EXPECT_THAT(
      state.Write("x", DType::kFloat32, {2}, {"abcd"}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'x', float32[2], is written")));
  EXPECT_THAT(state.Write("x", DType::kFloat32, {-1}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("float32[-1]")));
}

}  // namespace
}  // namespace ding
