// SPDX-License-Identifier: Apache-2.0
// One short sentence for each record, for people that follow the log on a terminal. All values are
// in the lines of exports/record_log.h.
#pragma once

#include <string>

#include "model/condition.h"
#include "model/record.h"
#include "model/signal.h"

namespace forestall::exports {

// "evicting batch/leaker: memory.available 95.8Mi < 96Mi".
[[nodiscard]] std::string decision_sentence(const Record& record);
// "evicted batch/leaker: memory.available 95.8Mi < 96Mi; over its request by 127Mi; freed 190Mi in
// 10 ms". REQUIRES: the record has an outcome.
[[nodiscard]] std::string outcome_sentence(const Record& record);
// REQUIRES: the record is a kernel kill.
[[nodiscard]] std::string oom_kill_sentence(const Record& record);
// "met: memory.available 95.8Mi < 96Mi in /batch", "no longer met: ..." or, after a kill, "no
// longer met with the memory that is being released: ...". `subject`: "node" or the path of a
// cgroup; amounts in the signal's unit.
[[nodiscard]] std::string crossing_sentence(Signal signal, std::string_view subject, bool met,
                                            std::int64_t available, std::int64_t limit);
[[nodiscard]] std::string condition_sentence(const ConditionStatus& status);

}  // namespace forestall::exports
