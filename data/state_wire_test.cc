#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/data/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Status Save(StateWriter* writer) {
  const std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  absl::Status status = writer->WriteTensor(
      "model/weight", Tensor::FromSpan<float>({2, 3}, absl::MakeConstSpan(weight)));
  status.Update(writer->WriteInt("steps", 7));
  status.Update(writer->WriteString("kind", "mlp"));
  return status;
}

TEST(StateWireTest, RoundTripKeepsNamesTypesShapesAndOrder) {
  const absl::StatusOr<EncodedBatch> encoded = EncodeState(Save);
  ASSERT_THAT(encoded, IsOk());
  const absl::StatusOr<std::shared_ptr<StateReader>> state =
      DecodeState(encoded->ToString(), "policy 3");
  ASSERT_THAT(state, IsOk());
  EXPECT_THAT((*state)->Names(), ElementsAre("model/weight", "steps", "kind"));
  const absl::StatusOr<Tensor> weight = (*state)->ReadTensor("model/weight");
  ASSERT_THAT(weight, IsOk());
  EXPECT_EQ(weight->shape(), Shape({2, 3}));
  EXPECT_THAT(weight->data<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ((*state)->ReadInt("steps").value(), 7);
  EXPECT_EQ((*state)->ReadString("kind").value(), "mlp");
  EXPECT_THAT((*state)->ReadInt("nothing").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("policy 3")));
}

TEST(StateWireTest, ErrorsOfTheStatePassThrough) {
  EXPECT_THAT(EncodeState([](StateWriter*) { return absl::AbortedError("not now"); }).status(),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("not now")));
  EXPECT_THAT(EncodeState([](StateWriter* writer) {
                return writer->WriteTensor("none", Tensor());
              }).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("none")));
}

TEST(StateWireTest, RefusesDamageAndBatchesOfSeveralRows) {
  const absl::StatusOr<EncodedBatch> encoded = EncodeState(Save);
  ASSERT_THAT(encoded, IsOk());
  std::string bytes = encoded->ToString();
  bytes[bytes.size() / 2] ^= 1;
  EXPECT_THAT(DecodeState(bytes, "policy").status(), StatusIs(absl::StatusCode::kDataLoss));
  absl::StatusOr<SpecPtr> spec = MakeSpec({Box("obs", {2})});
  ASSERT_THAT(spec, IsOk());
  absl::StatusOr<BatchBuilder> rows = BatchBuilder::Create(*spec, 2);
  ASSERT_THAT(rows, IsOk());
  EXPECT_THAT(
      DecodeState(EncodedBatch(std::move(*rows).Seal(2)).ToString(), "policy 9").status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("policy 9: a state is one row")));
}

}  // namespace
}  // namespace ding
