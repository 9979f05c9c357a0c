#include "ding_worker/coordinator/testing/journal_fixture.h"

#include "glog/logging.h"

namespace ding {

FileJournalTest::FileJournalTest() { FLAGS_minloglevel = google::GLOG_ERROR; }
FileJournalTest::~FileJournalTest() { FLAGS_minloglevel = google::GLOG_INFO; }

}  // namespace ding
