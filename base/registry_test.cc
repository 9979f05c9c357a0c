#include "ding_worker/base/registry.h"

#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/module.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/params_test.pb.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/any.pb.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ding_user::ChoiceConfig;
using ding_user::NeededParams;
using ding_user::RangeParams;
using ding_user::WordParams;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

using Factory = std::function<int()>;

Registry<Factory>& Numbers() {
  static auto* const registry = new Registry<Factory>("number");
  return *registry;
}

template <int kNumber>
int Always() {
  return kNumber;
}

DING_REGISTER(Numbers(), "two", Always<2>, "the number of hands");
DING_REGISTER(Numbers(), "one", Always<1>, "the number of heads");

// Start-up goes through a file from the top: one name is replaced before it is registered, one
// after that.
Registry<Factory>& Numerals() {
  static auto* const registry = new Registry<Factory>("numeral");
  return *registry;
}

DING_REPLACE(Numerals(), "early", Always<10>, "replaced before it is registered");
DING_REGISTER(Numerals(), "early", Always<0>, "never found");
DING_REGISTER(Numerals(), "late", Always<0>, "never found");
DING_REPLACE(Numerals(), "late", Always<20>, "replaced after it is registered");
DING_REGISTER(Numerals(), "other", Always<30>, "not replaced");

int Make(const Registry<Factory>& registry, const char* name) {
  const absl::StatusOr<Factory> factory = registry.Find(name);
  EXPECT_THAT(factory, IsOk());
  return factory.ok() ? (*factory)() : -1;
}

TEST(Registry, FindsFactoriesRegisteredAtStartUp) {
  EXPECT_EQ(Make(Numbers(), "two"), 2);
  EXPECT_THAT(Numbers().Names(), ElementsAre("one", "two"));
  EXPECT_EQ(Numbers().kind(), "number");
}

TEST(Registry, EntriesHaveHelpAndPlace) {
  const std::vector<RegistryEntry> entries = Numbers().Entries();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "one");
  EXPECT_EQ(entries[0].help, "the number of heads");
  EXPECT_THAT(entries[0].where, ContainsRegex("registry_test.cc:[0-9]+$"));
  EXPECT_EQ(entries[1].name, "two");
  EXPECT_EQ(entries[1].help, "the number of hands");
}

TEST(Registry, AnEntryHasTheMessageOfItsParamsIfTheRegistrationNamesOne) {
  Registry<Factory> registry("number of a kind");
  const ParamsMessage message = []() -> const google::protobuf::Descriptor* { return nullptr; };
  registry.Register("plain", Always<0>, "help", "here.cc:1");
  registry.Register("given", Always<0>, {"help", message}, "here.cc:2");
  const std::vector<RegistryEntry> entries = EntriesOfKind("number of a kind");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "given");
  EXPECT_EQ(entries[0].params, message);
  EXPECT_EQ(entries[1].params, nullptr);
}

TEST(Registry, EntriesOfAKindAreThoseOfTheRegistriesThatExist) {
  EXPECT_THAT(EntriesOfKind("letter"), IsEmpty());
  {
    Registry<Factory> first("letter");
    Registry<int> second("letter");
    first.Register("b", Always<0>, "help", "here.cc:1");
    second.Register("a", 1, "help", "here.cc:2");
    const std::vector<RegistryEntry> entries = EntriesOfKind("letter");
    ASSERT_EQ(entries.size(), 2u);
    EXPECT_EQ(entries[0].name, "a");
    EXPECT_EQ(entries[1].name, "b");
  }
  EXPECT_THAT(EntriesOfKind("letter"), IsEmpty());
}

TEST(Registry, AnUnknownNameIsAnErrorThatListsTheKnownNames) {
  EXPECT_THAT(Numbers().Find("three"),
              IsNotFound("unknown number type 'three'; this program has: one, two"));
  const Registry<Factory> empty("letter");
  EXPECT_THAT(empty.Find("a"), IsNotFound("has: none"));
}

TEST(Registry, AReplacementIsFoundInWhateverOrderTheTwoStart) {
  EXPECT_EQ(Make(Numerals(), "early"), 10);
  EXPECT_EQ(Make(Numerals(), "late"), 20);
  EXPECT_EQ(Make(Numerals(), "other"), 30);
  EXPECT_THAT(Numerals().Problems(), IsEmpty());
  std::vector<std::string> help;
  for (const RegistryEntry& entry : Numerals().Entries()) help.push_back(entry.help);
  EXPECT_THAT(help, ElementsAre("replaced before it is registered",
                                "replaced after it is registered", "not replaced"));
}

TEST(Registry, AReplacementOfNothingFailsEveryFindAndNamesItsPlace) {
  Registry<Factory> registry("number");
  registry.Register("one", Always<0>, "help", "here.cc:1");
  registry.Replace("ten", Always<0>, "help", "elsewhere.cc:5");
  const auto says =
      HasSubstr("number type 'ten' is replaced at elsewhere.cc:5, but nothing registers that name");
  for (const char* name : {"one", "ten", "two"}) {
    EXPECT_THAT(registry.Find(name), StatusIs(absl::StatusCode::kFailedPrecondition, says));
  }
  EXPECT_THAT(registry.Problems(), ElementsAre(says));
  EXPECT_THAT(registry.Names(), ElementsAre("one"));
  registry.Register("ten", Always<0>, "help", "late.cc:1");
  EXPECT_THAT(registry.Find("ten"), IsOk());
  EXPECT_THAT(registry.Problems(), IsEmpty());
}

TEST(RegistryDeathTest, ADuplicateNameEndsTheProgramAndNamesBothPlaces) {
  EXPECT_DEATH(Numbers().Register("one", Always<3>, "help", "elsewhere.cc:5"),
               "number type 'one' is registered twice: at .*registry_test.cc:[0-9]+ and at "
               "elsewhere.cc:5");
}

TEST(RegistryDeathTest, ASecondReplacementEndsTheProgramAndNamesBothPlaces) {
  EXPECT_DEATH(Numerals().Replace("late", Always<3>, "help", "elsewhere.cc:5"),
               "numeral type 'late' is replaced twice: at .*registry_test.cc:[0-9]+ and at "
               "elsewhere.cc:5");
}

TEST(RegistryDeathTest, HelpThatIsNotOneShortLineEndsTheProgramAndNamesThePlace) {
  const auto add = [](const std::string& help) {
    Registry<Factory>("number").Register("one", nullptr, help, "elsewhere.cc:5");
  };
  const auto replace = [](const std::string& help) {
    Registry<Factory>("number").Replace("one", nullptr, help, "elsewhere.cc:5");
  };
  const std::string expected = "; expected one line of 1 to 100 bytes";
  EXPECT_DEATH(add(""), "number type 'one' at elsewhere.cc:5 has no help" + expected);
  EXPECT_DEATH(add(" \t"), "has no help" + expected);
  EXPECT_DEATH(add("a\nb"), "has help with a line break" + expected);
  EXPECT_DEATH(add("a\r"), "has help with a line break" + expected);
  EXPECT_DEATH(add(std::string(101, 'a')), "has help of 101 bytes" + expected);
  EXPECT_DEATH(replace(""), "number type 'one' at elsewhere.cc:5 has no help" + expected);
  add(std::string(100, 'a'));
}

TEST(ScopedRegistration, ReplacesAndRestoresAFactory) {
  {
    const ScopedRegistration<Factory> scoped(&Numbers(), "one", [] { return 100; });
    DING_ASSERT_OK_AND_ASSIGN(const Factory factory, Numbers().Find("one"));
    EXPECT_EQ(factory(), 100);
  }
  DING_ASSERT_OK_AND_ASSIGN(const Factory factory, Numbers().Find("one"));
  EXPECT_EQ(factory(), 1);
}

TEST(ScopedRegistration, AddsAndRemovesAFactory) {
  {
    const ScopedRegistration<Factory> scoped(&Numbers(), "nine", [] { return 9; });
    EXPECT_THAT(Numbers().Find("nine"), IsOk());
  }
  EXPECT_THAT(Numbers().Find("nine"), IsNotFound());
}

TEST(ScopedRegistration, TakesPrecedenceOverAReplacement) {
  {
    const ScopedRegistration<Factory> scoped(&Numerals(), "late", [] { return 100; });
    EXPECT_EQ(Make(Numerals(), "late"), 100);
  }
  EXPECT_EQ(Make(Numerals(), "late"), 20);
}

TEST(CallUser, ReturnsTheResultOfTheCall) {
  EXPECT_THAT(CallUser("the hook", [] { return absl::OkStatus(); }), IsOk());
  EXPECT_THAT(CallUser("the hook", [] { return absl::DataLossError("torn"); }),
              StatusIs(absl::StatusCode::kDataLoss, "torn"));
  const absl::StatusOr<int> seven = CallUser("the source", [] { return absl::StatusOr<int>(7); });
  ASSERT_THAT(seven, IsOk());
  EXPECT_EQ(*seven, 7);
}

TEST(CallUser, TurnsAnExceptionIntoAnError) {
  EXPECT_THAT(
      CallUser("the hook", []() -> absl::Status { throw std::runtime_error("out of ideas"); }),
      StatusIs(absl::StatusCode::kInternal, "the hook threw an exception: out of ideas"));
  const absl::StatusOr<int> none =
      CallUser("the source", []() -> absl::StatusOr<int> { throw std::runtime_error("empty"); });
  EXPECT_THAT(none.status(),
              StatusIs(absl::StatusCode::kInternal, "the source threw an exception: empty"));
}

TEST(CallUser, TurnsOtherThrownValuesIntoErrors) {
  EXPECT_THAT(CallUser("the hook", []() -> absl::Status { throw 42; }),
              StatusIs(absl::StatusCode::kInternal,
                       "the hook threw an exception that is not a std::exception"));
}

using Made = absl::StatusOr<std::unique_ptr<int>>;

absl::Status StatusOf(const std::function<Made()>& factory) {
  return CallFactory("buffer", "mine", factory).status();
}

TEST(CallFactoryTest, ReturnsWhatTheFactoryReturns) {
  const Made seven = CallFactory("buffer", "mine", [] { return Made(std::make_unique<int>(7)); });
  ASSERT_THAT(seven, IsOk());
  EXPECT_EQ(**seven, 7);
  EXPECT_THAT(StatusOf([] { return absl::DataLossError("torn"); }),
              StatusIs(absl::StatusCode::kDataLoss, "torn"));
}

TEST(CallFactoryTest, NamesATypeWhoseFactoryReturnsNoneOrThrows) {
  EXPECT_THAT(StatusOf([] { return nullptr; }),
              StatusIs(absl::StatusCode::kInternal, "the factory of buffer 'mine' returned none"));
  EXPECT_THAT(StatusOf([]() -> Made { throw std::runtime_error("out of ideas"); }),
              StatusIs(absl::StatusCode::kInternal,
                       "the factory of buffer 'mine' threw an exception: out of ideas"));
  EXPECT_THAT(StatusOf(nullptr), IsInternal("the factory of buffer 'mine' threw an exception"))
      << "an empty function";
}

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

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

std::vector<std::string> RangeProblems(const RangeParams& params) {
  std::vector<std::string> problems;
  CheckRanges(params, "run.", &problems);
  return problems;
}

TEST(CheckRangesTest, FieldsThatAreNotSetAreNotChecked) {
  EXPECT_THAT(RangeProblems(RangeParams()), IsEmpty());
}

TEST(CheckRangesTest, BoundsThemselvesAreInTheRange) {
  RangeParams params;
  params.set_count(1);
  params.set_share(1);
  params.set_rate(0);
  params.set_limit(kInf);
  params.set_level(-1e300);
  params.add_width(1);
  params.add_width(8);
  params.set_steps(5);
  params.add_inside()->set_number(1);
  EXPECT_THAT(RangeProblems(params), IsEmpty());
}

TEST(CheckRangesTest, EachFieldOutOfItsRangeIsListed) {
  RangeParams params;
  params.set_count(-1000000);
  params.set_share(0);
  params.set_rate(-0.5);
  params.set_limit(0);
  params.set_level(kNan);
  params.add_width(0);
  params.add_width(3);
  params.add_width(9);
  params.set_steps(6);
  params.add_inside();
  EXPECT_THAT(
      RangeProblems(params),
      ElementsAre("run.count is -1000000, expected at least 1",
                  "run.share is 0, expected in (0, 1]", "run.rate is -0.5, expected at least 0",
                  "run.limit is 0, expected above 0", "run.level is nan, expected finite",
                  "run.width[0] is 0, expected in [1, 9)", "run.width[2] is 9, expected in [1, 9)",
                  "run.steps is 6, expected at most 5",
                  "run.inside[0].number is not set, expected at least 1"));
}

TEST(CheckRangesTest, NumbersAreFiniteUnlessTheBoundIsInfinite) {
  RangeParams params;
  params.set_rate(kInf);
  params.set_limit(kNan);
  params.set_level(kInf);
  EXPECT_THAT(RangeProblems(params), ElementsAre("run.rate is inf, expected finite and at least 0",
                                                 "run.limit is nan, expected above 0",
                                                 "run.level is inf, expected finite"));
}

TEST(ReadParamsTest, RequiredFieldsAreMissedWithoutParamsToo) {
  NeededParams params;
  EXPECT_THAT(ReadParams(Choice(), &params),
              StatusIs(kInvalid, "params.number is not set, expected at least 1"));
}

TEST(ReadParamsTest, FieldsOutOfTheirRangesAreListed) {
  ChoiceConfig config = Choice();
  RangeParams params;
  params.set_count(0);
  params.set_share(2);
  config.mutable_params()->PackFrom(params);
  EXPECT_THAT(ReadParams(config, &params),
              StatusIs(kInvalid,
                       "params.count is 0, expected at least 1; params.share is 2, expected in (0, "
                       "1]"));
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
  EXPECT_THAT(CheckParams(throws, ChoiceWithAWord()),
              IsInternal("the check of params of type 'mine'", "no idea"));
}

// Modules of one interface: a text, made from a word and a dependency.
using WordModule = Module<std::unique_ptr<std::string>, ChoiceConfig, const std::string&>;
using MadeWord = absl::StatusOr<std::unique_ptr<std::string>>;

struct WordDescriptor : WordModule {
  bool is_long = false;
};

MadeWord MakeTyped(const ChoiceConfig&, const WordParams& params, const std::string& end) {
  return std::make_unique<std::string>(params.word() + end);
}
MadeWord MakeWithNone(const ChoiceConfig&, const NoParams&, const std::string& end) {
  return std::make_unique<std::string>(end);
}
MadeWord MakeByItself(const ChoiceConfig& config, const std::string& end) {
  return std::make_unique<std::string>(config.type() + end);
}

TEST(ModuleTest, ReadsTheParamsOfATypedMakerAndKnowsTheirMessage) {
  ModuleRegistry<WordModule> registry("word");
  registry.Register("mine", MakeTyped, "help", "here.cc:1");
  DING_ASSERT_OK_AND_ASSIGN(const auto made, registry.Create(ChoiceWithAWord(), "!"));
  EXPECT_EQ(*made, "hello!");
  EXPECT_EQ(registry.Entries()[0].params, &WordParams::descriptor);
  ChoiceConfig other = Choice();
  other.mutable_params()->PackFrom(Choice());
  EXPECT_THAT(registry.Create(other, "!"),
              StatusIs(kInvalid, StartsWith("params hold a ding_user.ChoiceConfig")));
}

TEST(ModuleTest, AMakerWithoutParamsRefusesThem) {
  ModuleRegistry<WordModule> registry("word");
  registry.Register("mine", MakeWithNone, "help", "here.cc:1");
  EXPECT_THAT(registry.Create(Choice(), "!"), IsOk());
  EXPECT_THAT(registry.Create(ChoiceWithAWord(), "!"),
              StatusIs(kInvalid, StartsWith("params hold a ding_user.WordParams, but")));
  EXPECT_EQ(registry.Entries()[0].params, nullptr);
}

TEST(ModuleTest, AMakerMayReadTheParamsItself) {
  ModuleRegistry<WordModule> registry("word");
  registry.Register("mine", MakeByItself, {"help", &WordParams::descriptor}, "here.cc:1");
  registry.Register(
      "none", [](const auto&, const auto&...) { return std::unique_ptr<std::string>(); }, "help",
      "here.cc:2");
  EXPECT_THAT(registry.Create(ChoiceWithAWord(), "!"), IsOk());
  EXPECT_EQ(registry.Entries()[0].params, &WordParams::descriptor);
  ChoiceConfig none;
  none.set_type("none");
  EXPECT_THAT(
      registry.Create(none, "!"),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("the factory of word 'none' returned none")));
  EXPECT_THAT(registry.Create(ChoiceConfig(), "!"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(ModuleTest, ACheckIsCalledBeforeTheMaker) {
  std::vector<std::string> calls;
  const ParamsCheck check = [&](const GivenParams& given) {
    calls.push_back("check");
    return given.params != nullptr ? absl::OkStatus() : absl::InvalidArgumentError("no word");
  };
  const auto make = [&](const ChoiceConfig&, const WordParams& params, const std::string& end) {
    calls.push_back("make");
    return std::make_unique<std::string>(params.word() + end);
  };
  ModuleRegistry<WordModule> registry("word");
  registry.Register("mine", WordModule(make, check), "help", "here.cc:1");
  EXPECT_THAT(registry.Create(ChoiceWithAWord(), "!"), IsOk());
  EXPECT_THAT(registry.Create(Choice(), "!"), StatusIs(kInvalid, "no word"));
  EXPECT_THAT(calls, ElementsAre("check", "make", "check"));
}

TEST(ModuleTest, ADescriptorAddsToAModule) {
  ModuleRegistry<WordDescriptor> registry("word");
  registry.Register("mine", WordDescriptor{MakeTyped, /*is_long=*/true}, "help", "here.cc:1");
  DING_ASSERT_OK_AND_ASSIGN(const WordDescriptor found, registry.Find("mine"));
  EXPECT_TRUE(found.is_long);
  EXPECT_THAT(registry.Create(ChoiceWithAWord(), "!"), IsOk());
}

}  // namespace
}  // namespace ding
