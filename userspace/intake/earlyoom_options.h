// SPDX-License-Identifier: Apache-2.0
// earlyoom's command line (main.c, msg.c parse_term_kill_tuple()), read as earlyoom reads it.
// Stricter in two points, which the messages name: nan is no threshold (earlyoom accepts it, and
// then never acts), and the interval of -r is followed by nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rulesets/earlyoom.h"
#include "text/diagnostic.h"

namespace forestall::intake {

// An option as it was given: "-m" with "10,5", "--dryrun" without a value.
struct GivenOption {
  std::string name;
  std::string value;
};

// Sizes that the limits of -M and -S depend on, KiB.
struct EarlyoomTotals {
  std::int64_t memory = 0;
  std::int64_t swap = 0;
};

// The options in their order; the last of equal ones counts, as with getopt(). Origins are names of
// options. The result is valid only if no error was added.
[[nodiscard]] rulesets::EarlyoomOptions read_earlyoom_options(rulesets::EarlyoomVersion version,
                                                              const std::vector<GivenOption>& given,
                                                              const EarlyoomTotals& totals,
                                                              text::Findings& findings);

}  // namespace forestall::intake
