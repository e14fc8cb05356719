// SPDX-License-Identifier: Apache-2.0
#include "sources/rule_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "base/parse.h"
#include "base/unique_fd.h"
#include "kernel/held_file.h"
#include "kernel/memory_files.h"
#include "sources/own_unit.h"
#include "sources/rule_pressure.h"
#include "sources/rule_selection.h"

namespace forestall::sources {
namespace {

using kernel::CgroupDir;
using kernel::CgroupVersion;
using rulesets::Cgroup;

// The attributes that oomd and systemd-oomd read.
constexpr std::array kAttributes{"trusted.oomd_prefer", "user.oomd_prefer", "trusted.oomd_avoid",
                                 "user.oomd_avoid", "user.oomd_omit"};

Result<std::string> whole_text(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return errno_error("open", path);
  std::string buffer;
  return std::string(TRY(kernel::read_whole(fd.get(), buffer, path)));
}

// "name value" lines.
template <typename Visit>
void each_counter(std::string_view text, Visit visit) {
  while (!text.empty()) {
    std::string_view line = next_field(text, '\n');
    const std::string_view name = next_field(line, ' ');
    if (const auto value = parse_u64(line)) visit(name, static_cast<std::int64_t>(*value));
  }
}

std::optional<std::int64_t> rule_amount(const Result<std::string>& text) {
  if (!text) return std::nullopt;
  const auto amount = kernel::parse_amount(*text);
  if (!amount) return std::nullopt;
  return *amount ? (*amount)->count : rulesets::kNoLimit;
}

std::optional<bool> rule_flag(const Result<std::string>& text) {
  const auto amount = rule_amount(text);
  return amount ? std::optional(*amount != 0) : std::nullopt;
}

std::optional<rulesets::PressureFile> pressure_of(const Result<std::string>& text) {
  return text ? rule_pressure(*text) : std::nullopt;
}

std::optional<rulesets::MemoryStatReading> rule_stat(const Result<std::string>& text,
                                                     CgroupVersion version) {
  if (!text) return std::nullopt;
  rulesets::MemoryStatReading stat;
  const auto add = [](std::optional<std::int64_t>& sum, std::int64_t value) {
    sum = sum.value_or(0) + value;
  };
  // v1 counts descendants under names of their own.
  const std::string prefix = version == CgroupVersion::v1 ? "total_" : "";
  each_counter(*text, [&](std::string_view name, std::int64_t value) {
    if (!name.starts_with(prefix)) return;
    name.remove_prefix(prefix.size());
    if (name == "anon" || (version == CgroupVersion::v1 && name == "rss")) stat.anon = value;
    if (name == "active_anon") stat.active_anon = value;
    if (name == "inactive_anon") stat.inactive_anon = value;
    if (name == "active_file") stat.active_file = value;
    if (name == "inactive_file") stat.inactive_file = value;
    if (name == "pgscan") stat.pgscan = value;
    if (name == "workingset_refault_anon" || name == "workingset_refault_file") {
      add(stat.refaults, value);
    }
  });
  return stat;
}

// "8:0 rbytes=1 wbytes=2 ..."
std::optional<std::vector<rulesets::DeviceIo>> rule_io(const Result<std::string>& text) {
  if (!text) return std::nullopt;
  std::vector<rulesets::DeviceIo> devices;
  std::string_view rest = *text;
  while (!rest.empty()) {
    std::string_view line = next_field(rest, '\n');
    rulesets::DeviceIo io;
    io.device = std::string(next_field(line, ' '));
    while (!line.empty()) {
      std::string_view pair = next_field(line, ' ');
      const std::string_view name = next_field(pair, '=');
      const auto value = parse_u64(pair);
      if (!value) continue;
      const auto count = static_cast<std::int64_t>(*value);
      if (name == "rbytes") io.rbytes = count;
      if (name == "wbytes") io.wbytes = count;
      if (name == "rios") io.rios = count;
      if (name == "wios") io.wios = count;
      if (name == "dbytes") io.dbytes = count;
      if (name == "dios") io.dios = count;
    }
    if (!io.device.empty()) devices.push_back(std::move(io));
  }
  return devices;
}

std::optional<std::int64_t> rule_counter(const Result<std::string>& text, std::string_view name) {
  std::optional<std::int64_t> found;
  if (!text) return found;
  each_counter(*text, [&](std::string_view each, std::int64_t value) {
    if (each == name) found = value;
  });
  return found;
}

// The directory's own descriptor is O_PATH, which reads no attributes.
void read_attributes(const CgroupDir& directory, Cgroup& cgroup) {
  const auto opened = directory.open_file(".", O_RDONLY | O_DIRECTORY);
  if (!opened) return;
  for (const char* name : kAttributes) {
    std::array<char, 256> value{};
    const ssize_t size = ::fgetxattr(opened->get(), name, value.data(), value.size());
    if (size < 0) continue;
    cgroup.xattrs.emplace_back(name, std::string(value.data(), static_cast<std::size_t>(size)));
  }
}

bool has_reclaim_file(const CgroupDir& directory) {
  return ::faccessat(directory.fd(), "memory.reclaim", F_OK, 0) == 0;
}

void read_v1(const CgroupDir& directory, Cgroup& cgroup) {
  cgroup.current = rule_amount(directory.read("memory.usage_in_bytes"));
  cgroup.max = rule_amount(directory.read("memory.limit_in_bytes"));
  const auto with_swap = rule_amount(directory.read("memory.memsw.usage_in_bytes"));
  if (with_swap && cgroup.current) {
    cgroup.swap_current = std::max<std::int64_t>(0, *with_swap - *cgroup.current);
  }
}

void read_v2(const CgroupDir& directory, Cgroup& cgroup) {
  cgroup.current = rule_amount(directory.read("memory.current"));
  cgroup.min = rule_amount(directory.read("memory.min"));
  cgroup.low = rule_amount(directory.read("memory.low"));
  cgroup.high = rule_amount(directory.read("memory.high"));
  cgroup.max = rule_amount(directory.read("memory.max"));
  cgroup.swap_current = rule_amount(directory.read("memory.swap.current"));
  cgroup.swap_max = rule_amount(directory.read("memory.swap.max"));
  cgroup.oom_group = rule_flag(directory.read("memory.oom.group"));
  cgroup.frozen = rule_flag(directory.read("cgroup.freeze"));
  cgroup.io = rule_io(directory.read("io.stat"));
  cgroup.dying_descendants = rule_counter(directory.read("cgroup.stat"), "nr_dying_descendants");
  if (const auto populated = rule_counter(directory.read("cgroup.events"), "populated")) {
    cgroup.populated = *populated != 0;
  }
  cgroup.has_reclaim = has_reclaim_file(directory);
}

void read_host(const std::string& proc, rulesets::Host& host) {
  const auto count = [](const std::optional<Bytes>& bytes) {
    return bytes ? std::optional(bytes->count) : std::nullopt;
  };
  if (const auto text = whole_text(proc + "/meminfo")) {
    if (const auto meminfo = kernel::parse_meminfo(*text)) {
      host.mem_total = count(meminfo->total);
      host.mem_free = count(meminfo->free);
      host.mem_available = count(meminfo->available);
      host.swap_total = count(meminfo->swap_total);
      host.swap_free = count(meminfo->swap_free);
    }
  }
  if (const auto text = whole_text(proc + "/sys/vm/swappiness")) {
    host.swappiness = rule_amount(*text);
  }
}

}  // namespace

bool RuleReader::add(const std::string& path, rulesets::RuleObservation& observation,
                     std::vector<std::string>& next) const {
  const auto directory = tree_.open(path);
  if (!directory) return false;
  struct stat status {};
  if (::fstat(directory->fd(), &status) != 0) return false;
  Cgroup cgroup;
  cgroup.path = path;
  cgroup.id = directory->id().inode;
  cgroup.uid = status.st_uid;
  const CgroupVersion version = tree_.version();
  if (version == CgroupVersion::v2) {
    read_v2(*directory, cgroup);
  } else {
    read_v1(*directory, cgroup);
  }
  cgroup.stat = rule_stat(directory->read("memory.stat"), version);
  const bool root = rulesets::is_root(cgroup);
  const auto pressure = [&](const char* resource) {
    if (root) return pressure_of(whole_text(std::string("/proc/pressure/") + resource));
    return pressure_of(directory->read((std::string(resource) + ".pressure").c_str()));
  };
  cgroup.memory_pressure = pressure("memory");
  cgroup.io_pressure = pressure("io");
  cgroup.cpu_pressure = pressure("cpu");
  read_attributes(*directory, cgroup);
  const auto children = directory->children();
  if (children) {
    for (const std::string& child : *children) {
      next.push_back((root ? "" : path) + "/" + child);
    }
  }
  observation.cgroups.push_back(std::move(cgroup));
  return true;
}

rulesets::RuleObservation RuleReader::read(MonotonicTime now) const {
  rulesets::RuleObservation observation;
  observation.time = now.time_since_epoch();
  read_host("/proc", observation.host);
  std::vector<std::string> level{"/"};
  while (!level.empty()) {
    std::vector<std::string> next;
    for (const std::string& path : level) {
      if (observation.cgroups.size() >= RuleSelection::kCgroupsMax) break;
      static_cast<void>(add(path, observation, next));
    }
    level = std::move(next);
  }
  std::ranges::sort(observation.cgroups, {}, &Cgroup::path);
  return observation;
}

namespace {

using rulesets::Item;
using rulesets::Items;

// What a selection lists, from the memory hierarchy.
class TreeLister final : public CgroupLister {
 public:
  TreeLister(const kernel::CgroupTree& tree, bool& incomplete)
      : tree_(tree), incomplete_(incomplete) {}

  bool exists(const std::string& path) override { return usable(tree_.id_at(path)); }

  std::vector<std::string> children(const std::string& path) override {
    const auto directory = tree_.open(path);
    if (!usable(directory)) return {};
    auto names = directory->children();
    if (!usable(names)) return {};
    return *std::move(names);
  }

  // What cannot be opened for another reason than its removal may exist.
  template <typename T>
  bool usable(const Result<T>& result) {
    if (result) return true;
    if (!kernel::is_removed(result.error())) incomplete_ = true;
    return false;
  }

 private:
  const kernel::CgroupTree& tree_;
  bool& incomplete_;
};

// One observation, cgroup by cgroup.
class RuleSampling {
 public:
  RuleSampling(const kernel::CgroupTree& tree, rulesets::RuleObservation& out)
      : tree_(tree), out_(out), lister_(tree, out.incomplete) {}

  void read(const std::vector<rulesets::RuleNeed>& needs) {
    RuleSelection selection(lister_, tree_.version());
    selection.select(needs);
    if (selection.incomplete()) out_.incomplete = true;
    for (const auto& [path, selected] : selection.selected()) read(path, selected);
  }

 private:
  void read(const std::string& path, const SelectedCgroup& selected) {
    const auto directory = tree_.open(path);
    if (!lister_.usable(directory)) return;
    struct stat status {};
    if (::fstat(directory->fd(), &status) != 0) return;
    Cgroup& cgroup = out_.cgroups.emplace_back();
    cgroup.path = path;
    cgroup.id = directory->id().inode;
    cgroup.uid = status.st_uid;
    read_items(*directory, selected.items, cgroup);
    if (selected.whole) cgroup.oom_group = true;  // more than a candidate with parts
  }

  void read_items(const CgroupDir& directory, Items items, Cgroup& cgroup) const {
    const bool v2 = tree_.version() == CgroupVersion::v2;
    const auto amount = [&](const char* v2_file, const char* v1_file) {
      return rule_amount(directory.read(v2 ? v2_file : v1_file));
    };
    if (items.has(Item::usage)) {
      cgroup.current = amount("memory.current", "memory.usage_in_bytes");
    }
    if (items.has(Item::stat))
      cgroup.stat = rule_stat(directory.read("memory.stat"), tree_.version());
    if (items.has(Item::swap)) read_swap(directory, cgroup);
    if (items.has(Item::memory_pressure)) cgroup.memory_pressure = pressure(directory, "memory");
    if (items.has(Item::io_pressure)) cgroup.io_pressure = pressure(directory, "io");
    if (items.has(Item::cpu_pressure)) cgroup.cpu_pressure = pressure(directory, "cpu");
    if (items.has(Item::preference) || items.has(Item::managed_preference)) {
      read_attributes(directory, cgroup);
      // systemd's are judged together with the owner (rulesets/ranking.cc).
      if (cgroup.uid != 0 && items.has(Item::preference)) {
        std::erase_if(cgroup.xattrs,
                      [](const auto& each) { return each.first.starts_with("user."); });
      }
    }
    if (!v2) {
      if (items.has(Item::candidate)) cgroup.populated = has_process(cgroup.path);
      return;
    }
    if (items.has(Item::protection) || items.has(Item::floor)) {
      cgroup.min = rule_amount(directory.read("memory.min"));
      cgroup.low = rule_amount(directory.read("memory.low"));
    }
    if (items.has(Item::high)) cgroup.high = rule_amount(directory.read("memory.high"));
    if (items.has(Item::freezer)) cgroup.frozen = rule_flag(directory.read("cgroup.freeze"));
    if (items.has(Item::reclaim)) cgroup.has_reclaim = has_reclaim_file(directory);
    if (items.has(Item::io)) cgroup.io = rule_io(directory.read("io.stat"));
    if (items.has(Item::dying)) {
      cgroup.dying_descendants =
          rule_counter(directory.read("cgroup.stat"), "nr_dying_descendants");
    }
    if (items.has(Item::candidate)) {
      cgroup.oom_group = rule_flag(directory.read("memory.oom.group"));
      const auto populated = rule_counter(directory.read("cgroup.events"), "populated");
      if (populated) cgroup.populated = *populated != 0;
    }
  }

  void read_swap(const CgroupDir& directory, Cgroup& cgroup) const {
    if (tree_.version() == CgroupVersion::v2) {
      cgroup.swap_current = rule_amount(directory.read("memory.swap.current"));
      return;
    }
    const auto usage = rule_amount(directory.read("memory.usage_in_bytes"));
    const auto with_swap = rule_amount(directory.read("memory.memsw.usage_in_bytes"));
    if (usage && with_swap) cgroup.swap_current = std::max<std::int64_t>(0, *with_swap - *usage);
  }

  static std::optional<rulesets::PressureFile> pressure(const CgroupDir& directory,
                                                        const std::string& resource) {
    if (directory.path() == "/") return pressure_of(whole_text("/proc/pressure/" + resource));
    return pressure_of(directory.read((resource + ".pressure").c_str()));
  }

  // v1 has no cgroup.events. Unknown if a list of processes cannot be read.
  std::optional<bool> has_process(const std::string& top) const {
    std::vector<std::string> paths{top};
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (i > RuleSelection::kDescendantsMax) return std::nullopt;
      const auto directory = tree_.open(paths[i]);
      if (!directory) return std::nullopt;
      const auto processes = directory->read("cgroup.procs");
      const auto names = directory->children();
      if (!processes || !names) return std::nullopt;
      if (!processes->empty()) return true;
      for (const std::string& name : *names) paths.push_back(child_path(directory->path(), name));
    }
    return false;
  }

  const kernel::CgroupTree& tree_;
  rulesets::RuleObservation& out_;
  TreeLister lister_;
};

void append(const std::vector<rulesets::RuleNeed>& more, std::vector<rulesets::RuleNeed>& needs) {
  needs.insert(needs.end(), more.begin(), more.end());
}

// The pause after a reading of a gate that needs swap, on a host that has none.
constexpr Duration kWithoutSwap = std::chrono::seconds(10);

}  // namespace

RuleSampleReader::RuleSampleReader(const kernel::CgroupTree& tree, std::string proc)
    : tree_(tree),
      proc_(std::move(proc)),
      agent_(proc_ + "/self/cgroup", ::getpid()),
      init_(proc_ + "/1/cgroup", 1),
      gates_(tree, proc_) {}

std::vector<std::string> RuleSampleReader::spared() {
  std::vector<std::string> paths = agent_.paths(tree_);
  for (std::string& path : init_.paths(tree_)) paths.push_back(std::move(path));
  if (tree_.version() == CgroupVersion::v2) return paths;
  for (const char* process : {"self", "1"}) {
    auto unit = unit_path(proc_ + "/" + process + "/cgroup");
    if (unit && std::ranges::find(paths, *unit) == paths.end()) paths.push_back(*std::move(unit));
  }
  return paths;
}

rulesets::RuleObservation RuleSampleReader::read(MonotonicTime now,
                                                 const std::vector<rulesets::RuleNeed>& needs) {
  rulesets::RuleObservation observation;
  observation.time = now.time_since_epoch();
  read_host(proc_, observation.host);
  RuleSampling(tree_, observation).read(needs);
  observation.spared = spared();
  return observation;
}

rulesets::RuleObservation RuleSampleReader::read_planned(
    MonotonicTime now, const SharedValue<rulesets::ReadingPlan>& plan) {
  if (plan != plan_) change_plan(plan);
  std::optional<rulesets::Host> host;
  std::vector<rulesets::RuleNeed> needs;
  std::vector<std::string> deferred;
  const bool overview = now >= overview_due_;
  if (overview) overview_due_ = now + kOverviewEvery;
  bool any_overview = false;
  for (const rulesets::RulesetReading& each : *plan_) {
    const bool shows_first = !each.gates.empty() && !times_.contains(each.ruleset);
    const bool open = is_open(each, host, now);
    if (!open && each.always.empty()) deferred.push_back(each.ruleset);
    append(open ? each.needs : each.always, needs);
    if (open || each.overview.empty() || (!overview && !shows_first)) continue;
    append(each.overview, needs);
    any_overview = true;
  }
  rulesets::RuleObservation observation;
  const bool defers_all = deferred.size() == plan_->size();
  if (!defers_all || any_overview) observation = read(now, needs);
  idle_until_ = defers_all ? next_reading() : now;
  observation.time = now.time_since_epoch();
  std::ranges::sort(deferred);
  observation.deferred = std::move(deferred);
  return observation;
}

// REQUIRES: all rulesets are deferred, so each gate was found shut.
MonotonicTime RuleSampleReader::next_reading() const {
  MonotonicTime next = MonotonicTime::max();
  for (const rulesets::RulesetReading& each : *plan_) {
    for (const MonotonicTime shut_until : times_.at(each.ruleset).shut_until) {
      next = std::min(next, shut_until);
    }
    if (!each.overview.empty()) next = std::min(next, overview_due_);
  }
  return next;
}

// What is known of rulesets that are read as before still holds: the policy keeps their state too,
// and a chain of theirs may wait for a hook.
void RuleSampleReader::change_plan(const SharedValue<rulesets::ReadingPlan>& plan) {
  std::map<std::string, RulesetTimes> kept;
  std::vector<rulesets::PressureGate> gates;
  for (const rulesets::RulesetReading& each : *plan) {
    for (const rulesets::RuleGate& gate : each.gates) {
      if (const auto* pressure = std::get_if<rulesets::PressureGate>(&gate)) {
        gates.push_back(*pressure);
      }
    }
    auto known = times_.find(each.ruleset);
    if (known == times_.end() || std::ranges::find(*plan_, each) == plan_->end()) continue;
    kept.insert(times_.extract(known));
  }
  times_ = std::move(kept);
  gates_.keep(gates);
  plan_ = plan;
}

bool RuleSampleReader::is_open(const rulesets::RulesetReading& reading,
                               std::optional<rulesets::Host>& host, MonotonicTime now) {
  if (reading.gates.empty()) return true;
  RulesetTimes& times = times_[reading.ruleset];
  bool open = false;
  times.shut_until.resize(reading.gates.size());
  for (std::size_t i = 0; i < reading.gates.size() && !open; ++i) {
    if (const auto* pressure = std::get_if<rulesets::PressureGate>(&reading.gates[i])) {
      open = is_open(*pressure, now, times.shut_until[i]);
    } else {
      open = is_open(std::get<rulesets::AvailableGate>(reading.gates[i]), host, now,
                     times.shut_until[i]);
    }
  }
  if (open) times.open_until = now + reading.kept;
  return now < times.open_until;
}

bool RuleSampleReader::is_open(const rulesets::PressureGate& gate, MonotonicTime now,
                               MonotonicTime& shut_until) {
  if (now < shut_until) return false;
  const auto average = gates_.highest(gate);
  if (!average || rulesets::is_open(gate, *average)) return true;
  shut_until = now + rulesets::shut_for(gate, *average);
  return false;
}

bool RuleSampleReader::is_open(const rulesets::AvailableGate& gate,
                               std::optional<rulesets::Host>& host, MonotonicTime now,
                               MonotonicTime& shut_until) const {
  if (now < shut_until) return false;
  if (!host) read_host(proc_, host.emplace());
  if (rulesets::is_open(gate, *host)) return true;
  shut_until = rulesets::lacks_swap(gate, *host) ? now + kWithoutSwap : now;
  return false;
}

}  // namespace forestall::sources
