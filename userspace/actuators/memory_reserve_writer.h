// SPDX-License-Identifier: Apache-2.0
// Writes memory.min and memory.low of cgroups (v2) and restores what was there before.
//
// Each value has a record (kernel/amount_setting.h), so that a killed agent leaves nothing that the
// next one could not restore. The next one adopts what is still present: nothing is without its
// protection in between. Lower values are written from the leaves up, higher ones from the root
// down, so that no child is promised what its parent does not have.
//
// Another process may write the same file. A value that is back at the original was reset, not
// chosen (systemd's daemon-reload, a kubelet that clears its levels): it is written again, at most
// kRewritesMax times in kRewritePeriod. Any other value is left, until the agent's is not wanted
// any more.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "kernel/amount_setting.h"
#include "kernel/cgroup_tree.h"
#include "kernel/setting_records.h"
#include "model/ids.h"
#include "model/memory_qos.h"

namespace forestall::actuators {

struct MemoryReserve {
  std::string path;
  CgroupId cgroup;
  MemoryQosFile file = MemoryQosFile::min;  // min or low
  Bytes value;                              // whole pages, above 0

  friend bool operator==(const MemoryReserve&, const MemoryReserve&) = default;
};

// What came of one that is wanted.
struct ReserveOutcome {
  MemoryQosState state = MemoryQosState::failed;  // equal, written, left or failed
  std::string reason = {};                        // of left and failed

  friend bool operator==(const ReserveOutcome&, const ReserveOutcome&) = default;
};

// Thread rule: one thread at a time. The destructor restores everything.
class MemoryReserveWriter {
 public:
  static constexpr std::size_t kRewritesMax = 6;
  static constexpr Duration kRewritePeriod = std::chrono::hours(1);
  // How long adopted values that are not wanted may be kept: the facts of pods may come after the
  // start.
  static constexpr Duration kAdoptionGrace = std::chrono::seconds(60);

  struct Records {
    const kernel::SettingRecords& min;
    const kernel::SettingRecords& low;
  };

  // REQUIRES: cgroup v2. `tree` and the records outlive it.
  MemoryReserveWriter(const kernel::CgroupTree& tree, Records records)
      : tree_(tree), records_(records) {}
  MemoryReserveWriter(const MemoryReserveWriter&) = delete;
  MemoryReserveWriter& operator=(const MemoryReserveWriter&) = delete;
  ~MemoryReserveWriter();

  // Takes over what a killed agent wrote, once, before the first apply(). One line for each that
  // could not be taken over: each apply() tries it again, and writes nothing to a file with such a
  // record, because what the file has is not its original.
  [[nodiscard]] std::vector<std::string> adopt(MonotonicTime now);
  // From now on exactly `wanted` is present. With `facts_missing`, adopted values are not lowered
  // within kAdoptionGrace. What could not be restored is tried again at the next call.
  void apply(const std::vector<MemoryReserve>& wanted, MonotonicTime now,
             bool facts_missing = false);
  // Of the last apply(); null: it was not wanted.
  [[nodiscard]] const ReserveOutcome* outcome(CgroupId cgroup, MemoryQosFile file) const;
  // Of the last apply(): what could not be restored, and the reason.
  [[nodiscard]] const std::vector<std::pair<MemoryReserve, std::string>>& not_restored() const {
    return not_restored_;
  }
  // Values written again because they had been reset.
  [[nodiscard]] std::uint64_t rewrites() const { return rewrites_; }

 private:
  using Key = std::pair<CgroupId, MemoryQosFile>;
  struct Applied {
    std::string path;
    std::optional<Bytes> original;
    std::optional<Bytes> value;  // what the agent wrote
    bool is_lost = false;        // another process has written a value of its own; no record
    bool is_adopted = false;
    std::deque<MonotonicTime> rewrites = {};
  };
  struct ReserveStep {
    Key key;
    std::optional<MemoryReserve> wanted;  // nothing: the original is restored
    std::size_t depth = 0;
  };

  [[nodiscard]] const kernel::SettingRecords& records_of(MemoryQosFile file) const;
  // Lines as of adopt().
  [[nodiscard]] std::vector<std::string> adopt_all();
  [[nodiscard]] Result<bool> adopt_one(MemoryQosFile file,
                                       const kernel::SettingRecords::SavedSetting& left);
  [[nodiscard]] std::vector<ReserveStep> lowering_steps(const std::map<Key, MemoryReserve>& wanted,
                                                        bool keeps_adopted) const;
  void restore(Key key);
  [[nodiscard]] Result<void> undo(Key key, const Applied& applied) const;
  [[nodiscard]] Result<ReserveOutcome> write(const MemoryReserve& wanted, MonotonicTime now);
  // Why a file that the agent has not written may not be written; nothing: it may.
  [[nodiscard]] std::optional<ReserveOutcome> left_by_record(const MemoryReserve& wanted);
  [[nodiscard]] Result<ReserveOutcome> write_first(const MemoryReserve& wanted, int file,
                                                   const std::optional<Bytes>& present);
  [[nodiscard]] ReserveOutcome leave(Applied& applied, const MemoryReserve& wanted);
  [[nodiscard]] Result<void> put(const MemoryReserve& wanted, int file,
                                 const std::optional<Bytes>& original,
                                 const std::optional<Bytes>& present) const;
  [[nodiscard]] static bool may_rewrite(Applied& applied, MonotonicTime now);

  const kernel::CgroupTree& tree_;
  const Records records_;
  std::map<Key, Applied> applied_;
  std::map<Key, ReserveOutcome> outcomes_;
  std::vector<std::pair<MemoryReserve, std::string>> not_restored_;
  std::uint64_t rewrites_ = 0;
  MonotonicTime adopted_{};
  bool has_unadopted_ = false;  // records, of which apply() tries the adoption again
};

}  // namespace forestall::actuators
