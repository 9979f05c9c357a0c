#include "ding_worker/base/registry.h"

#include <functional>

#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Factory = std::function<int()>;

Registry<Factory>& Numbers() {
  static auto* const registry = new Registry<Factory>("number");
  return *registry;
}

DING_REGISTER(Numbers(), "two", [] { return 2; });
DING_REGISTER(Numbers(), "one", [] { return 1; });

TEST(Registry, FindsFactoriesRegisteredAtStartUp) {
  DING_ASSERT_OK_AND_ASSIGN(const Factory factory, Numbers().Find("two"));
  EXPECT_EQ(factory(), 2);
  EXPECT_THAT(Numbers().Names(), ElementsAre("one", "two"));
  EXPECT_EQ(Numbers().kind(), "number");
}

TEST(Registry, AnUnknownNameIsAnErrorThatListsTheKnownNames) {
  EXPECT_THAT(Numbers().Find("three"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("unknown number type 'three'; this program has: one, two")));
  const Registry<Factory> empty("letter");
  EXPECT_THAT(empty.Find("a"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("has: none")));
}

TEST(RegistryDeathTest, ADuplicateNameEndsTheProgramAndNamesBothPlaces) {
  EXPECT_DEATH(Numbers().Register(
                   "one", [] { return 3; }, "elsewhere.cc:5"),
               "number type 'one' is registered twice: at .*registry_test.cc:[0-9]+ and at "
               "elsewhere.cc:5");
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

}  // namespace
}  // namespace ding
