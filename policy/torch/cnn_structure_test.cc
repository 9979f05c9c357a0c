#include "ding_worker/policy/torch/cnn_structure.h"

#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

FieldSpec Picture(const char* name, Shape shape) {
  FieldSpec field = Box(name, std::move(shape));
  field.dtype = DType::kUint8;
  return field;
}

CnnOptions Options(std::vector<ConvOptions> conv) {
  CnnOptions options;
  options.conv = std::move(conv);
  options.mlp.encoder_hidden_size = {64};
  options.mlp.head_layer_num = 0;
  return options;
}

absl::StatusOr<CnnStructure> Make(const CnnOptions& options, std::vector<FieldSpec> input) {
  return MakeCnnStructure(options, *MakeSpec(std::move(input)), *MakeSpec({Box("q", {3})}));
}

TEST(CnnStructureTest, HasTheShapesOfConvolutions) {
  // The three layers of Mnih et al. 2015, whose shapes are known.
  DING_ASSERT_OK_AND_ASSIGN(
      const CnnStructure structure,
      Make(Options({{32, 8, 4}, {64, 4, 2}, {64, 3, 1}}), {Picture("obs", {4, 84, 84})}));
  ASSERT_THAT(structure.conv, ElementsAre(SizeIs(3)));
  EXPECT_EQ(structure.conv[0][0].in, Shape({4, 84, 84}));
  EXPECT_EQ(structure.conv[0][0].out, Shape({32, 20, 20}));
  EXPECT_EQ(structure.conv[0][1].out, Shape({64, 9, 9}));
  EXPECT_EQ(structure.conv[0][2].in, Shape({64, 9, 9}));
  EXPECT_EQ(structure.conv[0][2].out, Shape({64, 7, 7}));
  EXPECT_EQ(structure.mlp.input_width, 3136);
  EXPECT_EQ(structure.Architecture(), "4x84x84-32x20x20-64x9x9-64x7x7, mlp 3136-64, q 3");
}

TEST(CnnStructureTest, RowsAndColumnsMayDifferAndPaddingCountsTwice) {
  DING_ASSERT_OK_AND_ASSIGN(const CnnStructure structure,
                            Make(Options({{5, 3, 2, 1}}), {Picture("obs", {2, 7, 4})}));
  EXPECT_EQ(structure.conv[0][0].out, Shape({5, 4, 2}));
}

TEST(CnnStructureTest, VectorsBypassTheConvolutions) {
  DING_ASSERT_OK_AND_ASSIGN(
      const CnnStructure structure,
      Make(Options({{2, 3}}), {Picture("obs/left", {1, 5, 5}), Box("obs/speed", {7}),
                               Box("obs/right", {1, 4, 4}), Box("obs/table", {2, 3})}));
  ASSERT_THAT(structure.conv, ElementsAre(SizeIs(1), IsEmpty(), SizeIs(1), IsEmpty()));
  EXPECT_EQ(structure.conv[0][0].name, "obs/left/conv/0");
  EXPECT_EQ(structure.conv[2][0].name, "obs/right/conv/0");
  EXPECT_EQ(structure.mlp.input_width, 2 * 3 * 3 + 7 + 2 * 2 * 2 + 2 * 3);
}

TEST(CnnStructureTest, RefusesAKernelThatDoesNotFitNamingTheShape) {
  EXPECT_THAT(
      Make(Options({{16, 12}}), {Picture("obs", {1, 10, 10})}),
      IsInvalid("input 'obs' uint8[1, 10, 10]: conv[0] has kernel 12, larger than the 10 x 10 "
                "picture"));
  EXPECT_THAT(Make(Options({{16, 4, 2}, {16, 5}}), {Picture("obs", {1, 10, 10})}),
              IsInvalid("conv[1] has kernel 5, larger than the 4 x 4 picture that conv[0] leaves"));
  EXPECT_THAT(Make(Options({{16, 8, 1, 1}}), {Picture("obs", {1, 20, 5})}),
              IsInvalid("conv[0] has kernel 8, larger than the 22 x 7 picture with its padding"));
  // The largest kernel that fits.
  EXPECT_THAT(Make(Options({{16, 7, 1, 1}}), {Picture("obs", {1, 20, 5})}), IsOk());
}

TEST(CnnStructureTest, RefusesFieldsThatItCannotRead) {
  EXPECT_THAT(
      Make(Options({{16, 3}}), {Picture("obs/image", {10, 10}), Discrete("obs/room", 4)}),
      IsInvalid("input 'obs/image' is uint8[10, 10]", "input 'obs/room' is int64[] in 0..3"));
  EXPECT_THAT(Make(Options({{16, 3}}), {Box("obs", {4})}), IsInvalid("no input is a picture"));
}

TEST(CnnStructureTest, RefusesLayerNormalization) {
  CnnOptions options = Options({{16, 3}});
  options.mlp.layer_norm = true;
  EXPECT_THAT(Make(options, {Picture("obs", {1, 10, 10})}),
              IsInvalid("network 'torch_cnn' has no dropout or layer normalization"));
}

TEST(CnnStructureTest, PicturesThatNeedTooMuchMemory_AreRefusedWithTheirSize) {
  // The second convolution leaves few features, and so few weights: a checkpoint of some kB can ask
  // for this.
  EXPECT_THAT(
      Make(Options({{1, 1}, {1, 1, 1024}}), {Picture("obs", {1, 16384, 16384})}),
      IsInvalid("input 'obs' uint8[1, 16384, 16384]: it is a picture of 1 x 16384 x 16384"));
  EXPECT_THAT(Make(Options({{64, 1}, {1, 1, 512}}), {Picture("obs", {1, 3000, 3000})}),
              IsInvalid("the output of conv[0] is a picture of 64 x 3000 x 3000"));
  const int64_t wide = int64_t{1} << 39;
  EXPECT_THAT(Make(Options({{1, 1024, 1024}}), {Picture("obs", {1, 1, wide})}),
              IsInvalid("larger than the 1 x 549755813888 picture"));
  EXPECT_THAT(Make(Options({{1, 1}}), {Picture("obs", {1, 1, wide})}),
              IsInvalid("1 x 1 x 549755813888"));
  EXPECT_THAT(Make(Options({{16, 3, 4}, {16, 3, 4}}), {Picture("obs", {3, 1024, 1024})}), IsOk());
}

TEST(CnnStructureTest, ReportsEveryOptionOutOfRange) {
  EXPECT_THAT(Make(Options({}), {Picture("obs", {1, 10, 10})}), IsInvalid("there is no conv"));
  EXPECT_THAT(
      Make(Options({{0, 3}, {8, 0}, {8, 3, 0}, {8, 3, 1, 3}}), {Picture("obs", {1, 10, 10})}),
      IsInvalid("conv[0].channels is 0", "conv[1].kernel is 0", "conv[2].stride is 0",
                "conv[3].padding is 3; it must be in 0..2"));
  EXPECT_THAT(Make(Options({{65536, 200}, {65536, 200}}), {Picture("obs", {3, 500, 500})}),
              IsInvalid("conv[0] has 65536 x 3 x 200 x 200 weights"));
  // 2^16 x 2^40 x 2^20 weights.
  EXPECT_THAT(Make(Options({{65536, 1024, 1, 1023}}), {Picture("obs", {int64_t{1} << 40, 1, 1})}),
              IsInvalid("conv[0] has 65536 x 1099511627776 x 1024 x 1024 weights"));
  CnnOptions bad_mlp = Options({{8, 3}});
  bad_mlp.mlp.head_layer_num = -1;
  EXPECT_THAT(Make(bad_mlp, {Picture("obs", {1, 10, 10})}), IsInvalid("head_layer_num is -1"));
}

}  // namespace
}  // namespace ding
