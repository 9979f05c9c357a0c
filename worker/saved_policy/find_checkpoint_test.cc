#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/worker/saved_policy/saved_policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class FindCheckpointTest : public testing::Test {
 protected:
  FindCheckpointTest() : run_(JoinPath(testing::TempDir(), "find_checkpoint_test")) {
    EXPECT_THAT(RemoveRecursively(run_), IsOk());
    EXPECT_THAT(CreateDirectories(run_), IsOk());
  }

  // Writes <run>/<folder>/<name>.
  void Write(const std::string& name, int train_iter, int env_step,
             const std::string& folder = "ckpt") const {
    EXPECT_THAT(CreateDirectories(JoinPath(run_, folder)), IsOk());
    CheckpointInfo info;
    info.fields = {{"train_iter", absl::StrCat(train_iter)}, {"env_step", absl::StrCat(env_step)}};
    EXPECT_THAT(WriteCheckpoint(Path(name, folder), info, {}), IsOk());
  }
  std::string Path(const std::string& name, const std::string& folder = "ckpt") const {
    return JoinPath(JoinPath(run_, folder), name);
  }

  const std::string run_;
};

TEST_F(FindCheckpointTest, TakesTheBestOfARun) {
  Write("ckpt_best", 5, 50);
  Write("iteration_9", 9, 90);
  for (const std::string& folder : {run_, JoinPath(run_, "ckpt")}) {
    DING_ASSERT_OK_AND_ASSIGN(const FoundCheckpoint found, FindCheckpoint(folder));
    EXPECT_EQ(found.path, Path("ckpt_best"));
    EXPECT_EQ(found.note, "");
  }
  DING_ASSERT_OK_AND_ASSIGN(const FoundCheckpoint asked, FindCheckpoint(Path("iteration_9")));
  EXPECT_EQ(asked.path, Path("iteration_9"));
  EXPECT_EQ(asked.note, "");
}

TEST_F(FindCheckpointTest, WithoutABestTakesTheNewestAndSaysSo) {
  Write("iteration_9", 9, 90);
  Write("iteration_10", 10, 90);
  Write("learner_resume", 10, 95);
  Write("z.tmp.1.2", 11, 95);
  Write("z.old.1", 12, 95);
  Write("z_damaged", 13, 95);
  ASSERT_THAT(WriteFileAtomically(JoinPath(Path("z_damaged"), "manifest.json"), "{"), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const FoundCheckpoint found, FindCheckpoint(run_));
  EXPECT_EQ(found.path, Path("learner_resume"));
  EXPECT_THAT(found.note, AllOf(HasSubstr("no ckpt_best"), HasSubstr("learner_resume"),
                                HasSubstr("train iteration 10")));
}

TEST_F(FindCheckpointTest, RefusesWhatHasNoCheckpoint) {
  EXPECT_THAT(FindCheckpoint(run_ + "x").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("there is no '")));
  EXPECT_THAT(FindCheckpoint(run_).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr(run_), HasSubstr("has no checkpoints"))));
  ASSERT_THAT(CreateDirectories(JoinPath(run_, "ckpt")), IsOk());
  EXPECT_THAT(FindCheckpoint(run_).status(), StatusIs(absl::StatusCode::kNotFound));
  const std::string file = JoinPath(run_, "result.json");
  ASSERT_THAT(WriteFileAtomically(file, "{}"), IsOk());
  EXPECT_THAT(FindCheckpoint(file).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is a file")));
  Write("iteration_1", 1, 1);
  ASSERT_THAT(WriteFileAtomically(JoinPath(Path("iteration_1"), "manifest.json"), "{"), IsOk());
  EXPECT_THAT(FindCheckpoint(run_).status(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(FindCheckpointTest, ListsTheFoldersOfSeveralPolicies) {
  Write("iteration_1", 1, 1, "ckpt_policy_0");
  Write("iteration_2", 2, 1, "ckpt_policy_1");
  EXPECT_THAT(FindCheckpoint(run_).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("several policies"), HasSubstr("/ckpt_policy_0"),
                             HasSubstr("/ckpt_policy_1"))));
  DING_ASSERT_OK_AND_ASSIGN(const FoundCheckpoint found,
                            FindCheckpoint(JoinPath(run_, "ckpt_policy_1")));
  EXPECT_EQ(found.path, Path("iteration_2", "ckpt_policy_1"));
}

}  // namespace
}  // namespace ding
