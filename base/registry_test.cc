#include "ding_worker/base/registry.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
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
              IsError(absl::StatusCode::kNotFound,
                      "unknown number type 'three'; this program has: one, two"));
  const Registry<Factory> empty("letter");
  EXPECT_THAT(empty.Find("a"), IsError(absl::StatusCode::kNotFound, "has: none"));
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
  EXPECT_THAT(Numbers().Find("nine"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(ScopedRegistration, TakesPrecedenceOverAReplacement) {
  {
    const ScopedRegistration<Factory> scoped(&Numerals(), "late", [] { return 100; });
    EXPECT_EQ(Make(Numerals(), "late"), 100);
  }
  EXPECT_EQ(Make(Numerals(), "late"), 20);
}

}  // namespace
}  // namespace ding
