#include "ding_worker/worker/processes/parallel_job.h"

#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

// Runs other programs in the place of the coordinator; real runs are tested in parallel_test.cc.
class ParallelJobTest : public testing::Test {
 protected:
  ParallelJobTest() {
    std::string folder = absl::StrCat(testing::TempDir(), "/parallel_job_XXXXXX");
    folder_ = mkdtemp(folder.data());
    options_.exp_dir = JoinPath(folder_, "run");
  }
  ~ParallelJobTest() override { EXPECT_THAT(RemoveRecursively(folder_), IsOk()); }

  std::string folder_;
  ParallelJobOptions options_;
  InProcessTransport transport_;
};

// An env that calls _exit(0) when it is made may cause this.
TEST_F(ParallelJobTest, ACoordinatorWithoutAResultIsAnError) {
  options_.program = "/bin/true";
  EXPECT_THAT(RunParallelJob(options_, &transport_),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("ended with exit status 0 and left no result")));
}

TEST_F(ParallelJobTest, TheStatusOfACoordinatorThatRefusesIsPassedOn) {
  options_.program = "/bin/false";
  const absl::StatusOr<int> status = RunParallelJob(options_, &transport_);
  ASSERT_THAT(status, IsOk());
  EXPECT_EQ(*status, 1);
}

// An existing run of somebody else must not be touched.
TEST_F(ParallelJobTest, AFolderThatIsThereStaysAsItIs) {
  const std::string memory = JoinPath(folder_, "memory");
  ASSERT_THAT(CreateDirectories(memory), IsOk());
  ASSERT_THAT(CreateDirectories(JoinPath(options_.exp_dir, "coordinator")), IsOk());
  ASSERT_THAT(
      WriteFileAtomically(JoinPath(options_.exp_dir, "coordinator/run.textproto"),
                          absl::StrCat("memory: '", memory, "' store_url: 'file:", memory, "'")),
      IsOk());
  ASSERT_THAT(WriteFileAtomically(JoinPath(memory, ".lock"), ""), IsOk());
  options_.program = "/bin/true";
  EXPECT_THAT(RunParallelJob(options_, &transport_), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_TRUE(PathExists(JoinPath(memory, ".lock")));
}

}  // namespace
}  // namespace ding
