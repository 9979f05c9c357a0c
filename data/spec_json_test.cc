#include "ding_worker/data/spec_json.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(SpecJsonTest, ReadsWhatItWrites) {
  FieldSpec frames;
  frames.name = "obs/frames";
  frames.dtype = DType::kUint8;
  frames.shape = {4, 8, 8};
  frames.frame_stack_axis = 0;
  FieldSpec mask = Scalar("obs/action_mask", DType::kBool);
  mask.shape = {3};
  const SpecPtr spec =
      MakeSpec({Box("obs", {2}, {-4.8, -kInfinity}, {4.8, kInfinity}),
                Box("box", {3}, {0.1}, {0.3}), Discrete("action", 3), MultiDiscrete("keys", {2, 5}),
                mask, frames, Scalar("plain", DType::kFloat32)})
          .value();
  DING_ASSERT_OK_AND_ASSIGN(const SpecPtr read, SpecFromJson(SpecToJson(*spec)));
  EXPECT_EQ(*read, *spec) << read->DebugString();
}

TEST(SpecJsonTest, LooksAsDocumented) {
  const SpecPtr spec =
      MakeSpec({Box("obs", {2}, {-1, -1}, {kInfinity, kInfinity}), Discrete("action", 3)}).value();
  EXPECT_EQ(SpecToJson(*spec),
            R"([{"name":"obs","dtype":"float32","shape":[2],"low":[-1.0],"high":[null]},)"
            R"({"name":"action","dtype":"int64","shape":[],"categories":3}])");
  DING_ASSERT_OK_AND_ASSIGN(const SpecPtr read, SpecFromJson(SpecToJson(*spec)));
  EXPECT_EQ(read->field(0).high, std::vector<double>{kInfinity});
}

TEST(SpecJsonTest, SaysWhatIsWrong) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"", "not a JSON array"},
      {"{}", "not a JSON array"},
      {"[1]", "a field is not an object"},
      {R"([{"dtype":"bool"}])", "no 'name'"},
      {R"([{"name":"a","dtype":"half","shape":[]}])", "'dtype' of field 'a'"},
      {R"([{"name":"a","dtype":"bool","shape":3}])", "'shape' of field 'a'"},
      {R"([{"name":"a","dtype":"bool","shape":["3"]}])", "'shape' of field 'a'"},
      {R"([{"name":"a","dtype":"bool","shape":[0]}])", "a"},
      {R"([{"name":"a","dtype":"float32","shape":[],"low":1}])", "'low' of field 'a'"},
      {R"([{"name":"a","dtype":"float32","shape":[],"high":["x"]}])", "'high' of field 'a'"},
      {R"([{"name":"a","dtype":"int64","shape":[],"categories":1.5}])", "'categories' of field"},
      {R"([{"name":"a","dtype":"bool","shape":[],"frame_stack_axis":[]}])", "'frame_stack_axis'"},
  };
  for (const auto& wrong : cases) {
    EXPECT_THAT(SpecFromJson(wrong.text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(wrong.message)))
        << wrong.text;
  }
}

}  // namespace
}  // namespace ding
