#include "ding_worker/interaction/store/testing/store_conformance.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Returns the URL without settings: the store below a compressed store names itself in messages.
std::string Place(const Store& store) { return store.url().substr(0, store.url().find('?')); }

// Returns a value that repeats one letter, so that a torn value is noticed. The seed determines the
// letter and the length.
std::string Value(uint64_t seed) {
  return std::string((seed * 7919) % 20000, static_cast<char>('a' + seed % 26));
}

TEST_P(StoreConformance, GetReturnsTheStoredValue) {
  std::string value = "something else that was there before";
  ASSERT_THAT(store_->Put("data/3/1f", {"one, ", "", "two"}), IsOk());
  ASSERT_THAT(store_->Get("data/3/1f", &value), IsOk());
  EXPECT_EQ(value, "one, two");
  // The next value contains all kinds of bytes, and is longer than the one before.
  std::string bytes;
  for (int64_t i = 0; i < 100000; ++i) bytes.push_back(static_cast<char>(i * i >> 3));
  ASSERT_THAT(store_->Put("policy/p.0/12", {bytes}), IsOk());
  ASSERT_THAT(store_->Get("policy/p.0/12", &value), IsOk());
  EXPECT_TRUE(value == bytes);
}

TEST_P(StoreConformance, StoresEmptyValues) {
  ASSERT_THAT(store_->Put("a", {}), IsOk());
  ASSERT_THAT(store_->Put("b", {"", ""}), IsOk());
  for (const char* const key : {"a", "b"}) {
    std::string value = "x";
    ASSERT_THAT(store_->Get(key, &value), IsOk());
    EXPECT_EQ(value, "");
  }
  EXPECT_THAT(store_->List("").value(), ElementsAre("a", "b"));
}

TEST_P(StoreConformance, PutsManyPieces) {
  std::vector<std::string> texts;
  std::string all;
  for (int i = 0; i < 5000; ++i) {
    texts.push_back(absl::StrCat(i, ","));
    all += texts.back();
  }
  const std::vector<absl::string_view> pieces(texts.begin(), texts.end());
  ASSERT_THAT(store_->Put("a", pieces), IsOk());
  std::string value;
  ASSERT_THAT(store_->Get("a", &value), IsOk());
  EXPECT_TRUE(value == all);
}

TEST_P(StoreConformance, PuttingAgainReplacesTheValue) {
  std::string value;
  for (const char* const text : {"first, long", "2nd", "the third one, longest"}) {
    ASSERT_THAT(store_->Put("a", {text}), IsOk());
    ASSERT_THAT(store_->Get("a", &value), IsOk());
    EXPECT_EQ(value, text);
  }
  EXPECT_THAT(store_->List("").value(), ElementsAre("a"));
}

TEST_P(StoreConformance, DeletedKeysAreNotFound) {
  ASSERT_THAT(store_->Put("data/a", {"1"}), IsOk());
  ASSERT_THAT(store_->Put("data/b", {"2"}), IsOk());
  EXPECT_THAT(store_->Delete("data/a"), IsOk());
  EXPECT_THAT(store_->Delete("data/a"), IsOk()) << "twice";
  EXPECT_THAT(store_->Delete("elsewhere/never/was"), IsOk());
  EXPECT_THAT(store_->Delete("data"), IsOk()) << "not a key with a value, but the folder of keys";
  std::string value;
  EXPECT_THAT(
      store_->Get("data/a", &value),
      StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("data/a"), HasSubstr(Place(*store_)))));
  EXPECT_THAT(store_->Get("data", &value), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store_->Get("data/b/c", &value), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store_->Get("data/b", &value), IsOk());
  EXPECT_EQ(value, "2");
}

TEST_P(StoreConformance, ListsTheKeysThatBeginWithAPrefix) {
  EXPECT_THAT(store_->List("").value(), IsEmpty());
  for (const char* const key : {"data/2/b", "data/10", "data/2/a", "policy/x", "dat"}) {
    ASSERT_THAT(store_->Put(key, {"x"}), IsOk());
  }
  EXPECT_THAT(store_->List("").value(),
              ElementsAre("dat", "data/10", "data/2/a", "data/2/b", "policy/x"));
  EXPECT_THAT(store_->List("data/2").value(), ElementsAre("data/2/a", "data/2/b"));
  EXPECT_THAT(store_->List("data/2/a").value(), ElementsAre("data/2/a"));
  EXPECT_THAT(store_->List("z").value(), IsEmpty());
}

TEST_P(StoreConformance, InvalidKeysAreRefusedByName) {
  ASSERT_THAT(store_->Put("x", {"1"}), IsOk());
  const std::string bad[] = {"",
                             "/",
                             "/x",
                             "x/",
                             "a//b",
                             ".",
                             "..",
                             "../x",
                             ".a",
                             "a/../x",
                             "a/.b",
                             "a b",
                             "a\nb",
                             "a\\b",
                             "~",
                             "a:b",
                             "\xc3\xa9",
                             std::string("x\0", 2),
                             std::string(300, 'k')};
  for (const std::string& key : bad) {
    SCOPED_TRACE(testing::Message() << "key '" << key << "'");
    std::string value;
    EXPECT_THAT(store_->Put(key, {"2"}), StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(store_->Get(key, &value), StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(store_->Delete(key), StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(store_->Put("a//b", {"2"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("'a//b' of 4 bytes"), HasSubstr(Place(*store_)))));
  EXPECT_THAT(store_->List("").value(), ElementsAre("x"));
  EXPECT_THAT(store_->Put(std::string(200, 'k'), {"3"}), IsOk());
}

// A reader of a key sees one complete value after another, never parts of two.
TEST_P(StoreConformance, ReadersSeeWholeValuesWhileWritersReplaceThem) {
  constexpr int kKeys = 3;
  constexpr int kRounds = 150;
  const auto key = [](uint64_t i) { return absl::StrCat("data/", i % kKeys); };
  std::atomic<int> writing{2};
  std::vector<std::thread> threads;
  for (uint64_t writer = 0; writer < 2; ++writer) {
    threads.emplace_back([&, writer] {
      Rng rng(writer, "writer");
      for (int i = 0; i < kRounds; ++i) {
        const std::string value = Value(rng.Next32());
        const absl::string_view all = value;
        EXPECT_THAT(store_->Put(key(rng.Next32()),
                                {all.substr(0, all.size() / 3), all.substr(all.size() / 3)}),
                    IsOk());
        if (i % 10 == 0) {
          EXPECT_THAT(store_->Delete(key(rng.Next32())), IsOk());
        }
      }
      --writing;
    });
  }
  for (uint64_t reader = 0; reader < 2; ++reader) {
    threads.emplace_back([&, reader] {
      Rng rng(reader, "reader");
      std::string value;
      while (writing > 0) {
        const absl::Status status = store_->Get(key(rng.Next32()), &value);
        EXPECT_THAT(status, AnyOf(IsOk(), StatusIs(absl::StatusCode::kNotFound)));
        if (!status.ok()) continue;
        EXPECT_EQ(value.find_first_not_of(value.substr(0, 1)), std::string::npos);
      }
    });
  }
  threads.emplace_back([&] {
    while (writing > 0) EXPECT_LE(store_->List("data/").value().size(), size_t{kKeys});
  });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ding
