#include "ding_worker/coordinator/testing/journal_fixture.h"

#include "ding_worker/base/log.h"

namespace ding {

FileJournalTest::FileJournalTest() { SetMinLogSeverity(LogSeverity::kError); }
FileJournalTest::~FileJournalTest() { SetMinLogSeverity(LogSeverity::kInfo); }

}  // namespace ding
