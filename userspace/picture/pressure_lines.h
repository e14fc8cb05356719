// SPDX-License-Identifier: Apache-2.0
// Rates from counters: PSI, pages scanned and freed, stalls.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "forestall/internal/picture.pb.h"
#include "model/pressure.h"
#include "picture/table.h"

namespace forestall::picture {

// Thread rule: one thread.
class PressureLines {
 public:
  explicit PressureLines(std::size_t rows_max);

  void take(std::int64_t at_us, const MemoryPressure& pressure);
  // The next values do not continue the last ones: counters restart at a boot.
  void forget() { last_.reset(); }
  // Values from then on are unknown until the next ones.
  void lose(std::int64_t at_us);
  void thin(std::size_t rows_wanted, const std::vector<std::int64_t>& moments,
            std::int64_t around_us);
  void put(internal::Picture& out, std::int64_t after_us) const;

 private:
  ThinnedTable pressure_;
  ThinnedTable reclaim_;
  std::optional<MemoryPressure> last_;
};

}  // namespace forestall::picture
