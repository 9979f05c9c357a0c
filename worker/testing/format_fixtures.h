// Access to the files that make_format_fixtures has written, for tests.
//
// Threads: thread-safe.
#ifndef DING_WORKER_WORKER_TESTING_FORMAT_FIXTURES_H_
#define DING_WORKER_WORKER_TESTING_FORMAT_FIXTURES_H_

#include <string>
#include <vector>

namespace ding {

// Path of a file among the fixtures.
std::string FixturePath(const std::string& file);

// Returns the values of `key` in expected.txt, in their order; there is at least one.
std::vector<double> ExpectedOf(const std::string& key);

// Unpacks the folder of the run `name` into `folder`, and returns its path.
std::string UnpackRun(const std::string& name, const std::string& folder);

// Replaces the first occurrence of `from` in the file by `to`, which must have the same length.
void ReplaceInFile(const std::string& path, const std::string& from, const std::string& to);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TESTING_FORMAT_FIXTURES_H_
