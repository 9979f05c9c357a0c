#include "ding_worker/base/params.h"

#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/params_test.pb.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/any.pb.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ding_user::ChoiceConfig;
using ding_user::WordParams;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

ChoiceConfig Choice() {
  ChoiceConfig config;
  config.set_type("mine");
  return config;
}

ChoiceConfig ChoiceWithAWord() {
  ChoiceConfig config = Choice();
  WordParams params;
  params.set_word("hello");
  config.mutable_params()->PackFrom(params);
  return config;
}

TEST(ReadParamsTest, ReadsTheMessageOfTheType) {
  WordParams params;
  EXPECT_THAT(ReadParams(ChoiceWithAWord(), &params), IsOk());
  EXPECT_EQ(params.word(), "hello");
  EXPECT_EQ(params.number(), 7);
}

TEST(ReadParamsTest, WithoutParamsTheMessageIsUnchanged) {
  WordParams params;
  params.set_number(3);
  EXPECT_THAT(ReadParams(Choice(), &params), IsOk());
  EXPECT_EQ(params.number(), 3);
  EXPECT_THAT(ReadParams(Choice(), nullptr), IsOk());
}

TEST(ReadParamsTest, ATypeThatTakesNoneRefusesThemAndNamesFieldTypeAndMessage) {
  EXPECT_THAT(ReadParams(ChoiceWithAWord(), nullptr),
              StatusIs(kInvalid, "params hold a ding_user.WordParams, but type 'mine' takes none"));
  ChoiceConfig empty = Choice();
  empty.mutable_params();
  EXPECT_THAT(ReadParams(empty, nullptr),
              StatusIs(kInvalid, "params hold no message, but type 'mine' takes none"));
}

TEST(ReadParamsTest, AnotherMessageIsRefusedByNamingTheOneThatTheTypeTakes) {
  ChoiceConfig params;
  EXPECT_THAT(ReadParams(ChoiceWithAWord(), &params),
              StatusIs(kInvalid,
                       "params hold a ding_user.WordParams, expected a ding_user.ChoiceConfig "
                       "for type 'mine'"));
  ChoiceConfig empty = Choice();
  empty.mutable_params();
  EXPECT_THAT(
      ReadParams(empty, &params),
      StatusIs(kInvalid,
               "params hold no message, expected a ding_user.ChoiceConfig for type 'mine'"));
}

TEST(ReadParamsTest, BytesThatAreNoSuchMessageAreRefused) {
  ChoiceConfig config = ChoiceWithAWord();
  config.mutable_params()->set_value("\x0a\x7f");  // a word of 127 bytes, which are missing
  WordParams params;
  EXPECT_THAT(ReadParams(config, &params),
              StatusIs(kInvalid, "params hold bytes that are no valid ding_user.WordParams"));
}

TEST(ReadParamsTest, ErrorsNameAnotherFieldIfThereIsOne) {
  const ChoiceConfig config = ChoiceWithAWord();
  EXPECT_THAT(
      ReadParams(GivenParams("grpc_fs", &config.params(), "comm_collector_params"), nullptr),
      StatusIs(kInvalid,
               "comm_collector_params hold a ding_user.WordParams, but type 'grpc_fs' takes none"));
  EXPECT_THAT(ReadParams(GivenParams("grpc_fs", nullptr, "comm_collector_params"), nullptr),
              IsOk());
}

TEST(ReadParamsTest, AProblemIsAddedToTheOthers) {
  std::vector<std::string> problems = {"freq is 0"};
  WordParams params;
  ReadParams(ChoiceWithAWord(), &params, &problems);
  EXPECT_THAT(problems, ElementsAre("freq is 0"));
  EXPECT_EQ(params.word(), "hello");
  ReadParams(ChoiceWithAWord(), nullptr, &problems);
  EXPECT_THAT(problems, ElementsAre("freq is 0", HasSubstr("type 'mine' takes none")));
}

TEST(CheckParamsTest, TheCheckOfATypeDecides) {
  EXPECT_THAT(CheckParams(TakesNoParams, Choice()), IsOk());
  EXPECT_THAT(CheckParams(TakesNoParams, ChoiceWithAWord()), IsInvalid("takes none"));
  EXPECT_THAT(CheckParams(TakesParams<WordParams>, Choice()), IsOk());
  EXPECT_THAT(CheckParams(TakesParams<WordParams>, ChoiceWithAWord()), IsOk());
  EXPECT_THAT(CheckParams(TakesParams<ChoiceConfig>, ChoiceWithAWord()),
              IsInvalid("expected a ding_user.ChoiceConfig"));
  EXPECT_THAT(CheckParams(nullptr, ChoiceWithAWord()), IsOk()) << "the factory decides";
}

TEST(CheckParamsTest, AnExceptionOfACheckIsAnError) {
  const ParamsCheck throws = [](const GivenParams&) -> absl::Status {
    throw std::runtime_error("no idea");
  };
  EXPECT_THAT(
      CheckParams(throws, ChoiceWithAWord()),
      IsError(absl::StatusCode::kInternal, "the check of params of type 'mine'", "no idea"));
}

}  // namespace
}  // namespace ding
