#include <limits>

#include "ding_worker/metrics/terminal.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(FormatVarTest, HasSixDecimals) {
  EXPECT_EQ(FormatVar(0.001), "0.001000");
  EXPECT_EQ(FormatVar(-12345), "-12345.000000");
  EXPECT_EQ(FormatVar(std::numeric_limits<double>::quiet_NaN()), "nan");
}

// The expected text was printed by Python's tabulate with tablefmt "grid".
TEST(FormatVarGridTest, PutsFourVarsIntoAGrid) {
  EXPECT_EQ(FormatVarGrid({{"cur_lr_avg", FormatVar(0.001)},
                           {"loss", FormatVar(12.5)},
                           {"q", "missing"},
                           {"c", FormatVar(1)},
                           {"fifth", FormatVar(-1)}}),
            "+-------+------------+-----------+---------+----------+\n"
            "| Name  | cur_lr_avg | loss      | q       | c        |\n"
            "+-------+------------+-----------+---------+----------+\n"
            "| Value | 0.001000   | 12.500000 | missing | 1.000000 |\n"
            "+-------+------------+-----------+---------+----------+\n"
            "+-------+-----------+\n"
            "| Name  | fifth     |\n"
            "+-------+-----------+\n"
            "| Value | -1.000000 |\n"
            "+-------+-----------+\n");
}

TEST(FormatVarGridTest, IsEmptyWithoutVars) { EXPECT_EQ(FormatVarGrid({}), ""); }

TEST(FormatTableTest, AlignsNumbersToTheRight) {
  EXPECT_EQ(FormatTable({"episode", "return", "end"},
                        {{"1", "195.5", "truncated"}, {"10", "-3", "terminated"}}),
            "episode  return  end\n"
            "      1   195.5  truncated\n"
            "     10      -3  terminated\n");
}

TEST(FormatTableTest, ShowsAHeaderAlone) { EXPECT_EQ(FormatTable({"a", "b"}, {}), "a  b\n"); }

}  // namespace
}  // namespace ding
