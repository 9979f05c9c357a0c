#include "ding_worker/interaction/store/store_registry.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/store/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

TEST(StoreRegistry, MakesStoresByUrl) {
  const std::string folder = FreshTestFolder();
  for (const std::string& url :
       {std::string("mem:"), std::string("mem:name"), absl::StrCat("file:", folder),
        absl::StrCat("file:", folder, "?compress=lz4"), std::string("mem:?compress=zstd")}) {
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Store> store, create_store(url));
    EXPECT_EQ(store->url(), url);
    ASSERT_THAT(store->Put("a", {"1"}), IsOk());
    std::string value;
    EXPECT_THAT(store->Get("a", &value), IsOk());
    EXPECT_EQ(value, "1");
  }
  EXPECT_TRUE(PathExists(JoinPath(folder, "a")));
}

TEST(StoreRegistry, ExplainsInvalidUrls) {
  EXPECT_THAT(
      create_store("ftp:/x"),
      StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("'ftp:/x'"), HasSubstr("file, mem"))));
  EXPECT_THAT(create_store("mem:?compress=zip"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("lz4, zstd")));
  EXPECT_THAT(create_store("/dev/shm"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(create_store(""), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(create_store("mem:?size=3"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'size=3'")));
  EXPECT_THAT(create_store("mem:?compress=lz4&size=3"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'size=3'")));
  EXPECT_THAT(create_store("file:/x?compress=lz4&compress=zstd"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("set twice")));
  for (const char* const url : {"mem:?", "mem:?compress", "mem:?=lz4", "mem:?compress=lz4&"}) {
    EXPECT_THAT(create_store(url), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(url)));
  }
  EXPECT_THAT(create_store("file:relative"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("absolute")));
  const std::string file = JoinPath(FreshTestFolder(), "file");
  OverwriteFile(file, "");
  EXPECT_THAT(create_store(absl::StrCat("file:", file)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(file)));
}

TEST(StoreRegistryFuzz, MakesAStoreOrRefusesTheUrl) {
  int made = 0;
  Fuzz(6000, [&](Mutator* mutator) {
    const std::string url = mutator->Mutate(mutator->Coin() ? "mem:name?compress=lz4" : "mem:");
    if (absl::StartsWith(url, "file:")) return;  // A file store would make folders.
    const absl::StatusOr<std::unique_ptr<Store>> store = create_store(url);
    if (!store.ok()) {
      EXPECT_THAT(store.status().code(),
                  AnyOf(absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound))
          << store.status();
      return;
    }
    ++made;
    EXPECT_EQ((*store)->url(), url);
    EXPECT_THAT((*store)->Put("a", {"1"}), IsOk());
  });
  EXPECT_GT(made, 0);
}

}  // namespace
}  // namespace ding
