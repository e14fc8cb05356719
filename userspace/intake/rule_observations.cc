// SPDX-License-Identifier: Apache-2.0
#include "intake/rule_observations.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "base/parse.h"
#include "intake/json_members.h"

namespace forestall::intake {
namespace {

using rulesets::Cgroup;
using rulesets::DeviceIo;
using rulesets::Host;
using rulesets::MemoryStatReading;
using rulesets::PressureFile;
using rulesets::PressureLine;
using text::JsonMember;
using text::JsonNode;

const std::vector<std::string> kLineKeys{"time",        "host",    "cgroups",
                                         "hookSeconds", "dropIns", "managedOom"};
const std::vector<std::string> kHostKeys{"MemTotal",      "MemFree",      "MemAvailable",
                                         "SwapTotal",     "SwapFree",     "swap",
                                         "vm.swappiness", "swapoutBps60", "swapoutBps300"};
const std::vector<std::string> kCgroupKeys{
    "memory.current",  "memory.min",      "memory.low",  "memory.high",
    "memory.high.tmp", "memory.max",      "memory.stat", "memory.swap.current",
    "memory.swap.max", "memory.pressure", "io.pressure", "cpu.pressure",
    "cgroup.freeze",   "io.stat",         "cgroup.stat", "memory.oom.group",
    "populated",       "xattrs",          "uid",         "kill",
    "memory.reclaim"};

constexpr double kSecondsMax = 4e9;  // with a delay of 32 bits, in nanoseconds below 2^63
// Rounding of the kernel may exceed 100.
constexpr double kPercentMax = 1000;
// Sums of a thousand amounts remain below 2^63.
constexpr std::int64_t kAmountMax = std::int64_t{1} << 53;

std::optional<std::chrono::nanoseconds> json_seconds(const JsonMember& member,
                                                     JsonProblems& problems) {
  const auto seconds = json_real(member, problems);
  if (!seconds) return std::nullopt;
  if (!(*seconds >= 0) || *seconds > kSecondsMax) {
    problems.expected(member.value, member.key, "seconds from 0");
    return std::nullopt;
  }
  return std::chrono::nanoseconds(std::llround(*seconds * 1e9));
}

std::optional<std::int64_t> json_amount(const JsonMember& member, JsonProblems& problems) {
  const auto number = json_integer(member, problems);
  if (!number || (*number >= 0 && *number <= kAmountMax)) return number;
  problems.expected(member.value, member.key, "a number from 0 to 2^53");
  return std::nullopt;
}

// Bytes or "max".
std::optional<std::int64_t> json_limit(const JsonMember& member, JsonProblems& problems) {
  if (member.value.kind == JsonNode::Kind::string && member.value.text == "max") {
    return rulesets::kNoLimit;
  }
  if (member.value.kind == JsonNode::Kind::number) {
    const auto number = json_integer(member, problems);
    if (!number || *number >= 0) return number;
  }
  problems.expected(member.value, member.key, "bytes or \"max\"");
  return std::nullopt;
}

std::optional<float> json_percent(const JsonMember& member, JsonProblems& problems) {
  const auto number = json_real(member, problems);
  if (!number) return std::nullopt;
  if (*number >= 0 && *number <= kPercentMax) return static_cast<float>(*number);
  problems.expected(member.value, member.key, "a percentage");
  return std::nullopt;
}

std::optional<PressureLine> json_pressure_line(const JsonMember& member, JsonProblems& problems) {
  if (!json_object(member, problems)) return std::nullopt;
  PressureLine line;
  for (const JsonMember& each : member.value.members) {
    if (each.key == "avg10") {
      line.avg10 = json_percent(each, problems).value_or(0);
    } else if (each.key == "avg60") {
      line.avg60 = json_percent(each, problems).value_or(0);
    } else if (each.key == "avg300") {
      line.avg300 = json_percent(each, problems).value_or(0);
    } else if (each.key == "total") {
      line.total_us = json_amount(each, problems);
    } else {
      problems.unknown_key(each, {"avg10", "avg60", "avg300", "total"});
    }
  }
  return line;
}

std::optional<PressureFile> json_pressure(const JsonMember& member, JsonProblems& problems) {
  if (!json_object(member, problems)) return std::nullopt;
  PressureFile file;
  for (const JsonMember& each : member.value.members) {
    if (each.key == "some") {
      file.some = json_pressure_line(each, problems);
    } else if (each.key == "full") {
      file.full = json_pressure_line(each, problems);
    } else {
      problems.unknown_key(each, {"some", "full"});
    }
  }
  return file;
}

std::optional<MemoryStatReading> json_memory_stat(const JsonMember& member,
                                                  JsonProblems& problems) {
  if (!json_object(member, problems)) return std::nullopt;
  MemoryStatReading stat;
  const std::pair<std::string_view, std::optional<std::int64_t>*> fields[] = {
      {"anon", &stat.anon},
      {"active_anon", &stat.active_anon},
      {"inactive_anon", &stat.inactive_anon},
      {"active_file", &stat.active_file},
      {"inactive_file", &stat.inactive_file},
      {"pgscan", &stat.pgscan}};
  for (const JsonMember& each : member.value.members) {
    const auto number = json_amount(each, problems);
    for (const auto& [key, field] : fields) {
      if (each.key == key) *field = number;
    }
    const bool refaults =
        each.key == "workingset_refault_anon" || each.key == "workingset_refault_file";
    if (refaults && number) stat.refaults = stat.refaults.value_or(0) + *number;
  }
  return stat;
}

std::optional<std::vector<DeviceIo>> json_io_stat(const JsonMember& member,
                                                  JsonProblems& problems) {
  if (!json_object(member, problems)) return std::nullopt;
  std::vector<DeviceIo> devices;
  for (const JsonMember& device : member.value.members) {
    if (!json_object(device, problems)) continue;
    DeviceIo& io = devices.emplace_back();
    io.device = device.key;
    const std::pair<std::string_view, std::int64_t*> fields[] = {
        {"rbytes", &io.rbytes}, {"wbytes", &io.wbytes}, {"rios", &io.rios},
        {"wios", &io.wios},     {"dbytes", &io.dbytes}, {"dios", &io.dios}};
    for (const JsonMember& each : device.value.members) {
      bool known = false;
      for (const auto& [key, field] : fields) {
        if (each.key != key) continue;
        known = true;
        *field = json_amount(each, problems).value_or(0);
      }
      if (!known) {
        problems.unknown_key(each, {"rbytes", "wbytes", "rios", "wios", "dbytes", "dios"});
      }
    }
  }
  return devices;
}

std::optional<std::int64_t> json_dying(const JsonMember& member, JsonProblems& problems) {
  if (!json_object(member, problems)) return std::nullopt;
  // The file can be read, so a key that it lacks counts nothing, as for oomd.
  std::optional<std::int64_t> dying = 0;
  for (const JsonMember& each : member.value.members) {
    const auto number = json_amount(each, problems);
    if (each.key == "nr_dying_descendants") dying = number;
  }
  return dying;
}

std::vector<std::pair<std::string, std::string>> json_xattrs(const JsonMember& member,
                                                             JsonProblems& problems) {
  std::vector<std::pair<std::string, std::string>> xattrs;
  if (!json_object(member, problems)) return xattrs;
  for (const JsonMember& each : member.value.members) {
    const JsonNode& value = each.value;
    const bool is_text =
        value.kind == JsonNode::Kind::string || value.kind == JsonNode::Kind::number;
    if (is_text) {
      xattrs.emplace_back(each.key, value.text);
    } else if (value.kind == JsonNode::Kind::boolean) {
      xattrs.emplace_back(each.key, value.flag ? "1" : "0");
    } else {
      problems.expected(value, each.key, "the value of the attribute");
    }
  }
  return xattrs;
}

using ReadAmount = std::optional<std::int64_t> (*)(const JsonMember&, JsonProblems&);

struct AmountField {
  std::string_view key;
  std::optional<std::int64_t> Cgroup::*field;
  ReadAmount read;
};

constexpr AmountField kAmountFields[] = {
    {"memory.current", &Cgroup::current, json_amount},
    {"memory.min", &Cgroup::min, json_limit},
    {"memory.low", &Cgroup::low, json_limit},
    {"memory.high", &Cgroup::high, json_limit},
    {"memory.high.tmp", &Cgroup::high_tmp, json_limit},
    {"memory.max", &Cgroup::max, json_limit},
    {"memory.swap.current", &Cgroup::swap_current, json_amount},
    {"memory.swap.max", &Cgroup::swap_max, json_limit},
    {"cgroup.stat", &Cgroup::dying_descendants, json_dying}};

struct HostField {
  std::string_view key;
  std::optional<std::int64_t> Host::*field;
};

constexpr HostField kHostFields[] = {
    {"MemTotal", &Host::mem_total},         {"MemFree", &Host::mem_free},
    {"MemAvailable", &Host::mem_available}, {"SwapTotal", &Host::swap_total},
    {"SwapFree", &Host::swap_free},         {"vm.swappiness", &Host::swappiness}};

}  // namespace

// Applies one line to the observations.
class RuleObservations::LineReader {
 public:
  LineReader(RuleObservations& all, text::Findings& findings)
      : all_(all), problems_(all.file_, findings) {}

  std::optional<ObservationLine> read(const JsonNode& root) {
    ObservationLine line;
    line.line = all_.line_;
    if (root.kind != JsonNode::Kind::object) {
      problems_.expected(root, "an object");
      return std::nullopt;
    }
    const std::size_t before = problems_.count();
    bool has_time = false;
    for (const JsonMember& member : root.members) {
      has_time = has_time || member.key == "time";
      read_member(member, line);
    }
    if (!has_time && problems_.count() == before) problems_.error(root.at, "'time' is missing");
    if (problems_.count() != before) return std::nullopt;
    line.observation.time = *all_.time_;
    line.observation.host = all_.host_;
    add_root();
    for (const auto& [path, entry] : all_.cgroups_) {
      line.observation.cgroups.push_back(entry.cgroup);
    }
    return line;
  }

 private:
  void read_member(const JsonMember& member, ObservationLine& line) {
    if (member.key == "time") {
      read_time(member);
    } else if (member.key == "host") {
      read_host(member);
    } else if (member.key == "cgroups") {
      read_cgroups(member);
    } else if (member.key == "hookSeconds") {
      line.hook_duration = json_seconds(member, problems_).value_or(line.hook_duration);
    } else if (member.key == "dropIns") {
      read_drop_ins(member, line);
    } else if (member.key == "managedOom") {
      if (member.value.kind == JsonNode::Kind::list) {
        line.managed_oom = member.value;
      } else {
        problems_.expected(member.value, member.key, "a list");
      }
    } else {
      problems_.unknown_key(member, kLineKeys);
    }
  }

  void read_time(const JsonMember& member) {
    const auto time = json_seconds(member, problems_);
    if (!time) return;
    if (all_.time_ && *time < *all_.time_) {
      problems_.error(member.value.at, "'time' is before that of the previous line");
      return;
    }
    all_.time_ = time;
  }

  void read_host(const JsonMember& member) {
    if (!json_object(member, problems_)) return;
    Host& host = all_.host_;
    for (const JsonMember& each : member.value.members) {
      const bool is_null = each.value.kind == JsonNode::Kind::null;
      bool known = false;
      for (const HostField& field : kHostFields) {
        if (each.key != field.key) continue;
        known = true;
        host.*field.field = is_null ? std::nullopt : json_amount(each, problems_);
      }
      if (known) continue;
      if (each.key == "swap") {
        read_swap(each);
      } else if (each.key == "swapoutBps60") {
        host.swapout_bps60 = is_null ? std::nullopt : json_real(each, problems_);
      } else if (each.key == "swapoutBps300") {
        host.swapout_bps300 = is_null ? std::nullopt : json_real(each, problems_);
      } else {
        problems_.unknown_key(each, kHostKeys);
      }
    }
  }

  void read_swap(const JsonMember& member) {
    all_.host_.swaps_total.reset();
    all_.host_.swaps_used.reset();
    if (member.value.kind == JsonNode::Kind::null || !json_object(member, problems_)) return;
    for (const JsonMember& each : member.value.members) {
      if (each.key == "total") {
        all_.host_.swaps_total = json_amount(each, problems_);
      } else if (each.key == "used") {
        all_.host_.swaps_used = json_amount(each, problems_);
      } else {
        problems_.unknown_key(each, {"total", "used"});
      }
    }
  }

  void read_drop_ins(const JsonMember& member, ObservationLine& line) {
    if (!json_object(member, problems_)) return;
    for (const JsonMember& each : member.value.members) {
      if (each.value.kind == JsonNode::Kind::null) {
        line.drop_ins.push_back({each.key, std::nullopt});
      } else if (auto text = json_string(each, problems_)) {
        line.drop_ins.push_back({each.key, std::move(text)});
      }
    }
  }

  void read_cgroups(const JsonMember& member) {
    if (!json_object(member, problems_)) return;
    for (const JsonMember& each : member.value.members) {
      const auto path = path_of(each);
      if (!path) continue;
      if (each.value.kind == JsonNode::Kind::null) {
        remove(*path);
      } else if (json_object(each, problems_)) {
        read_cgroup(each, entry(*path));
      }
    }
  }

  // With the first slash, which the file may leave out.
  std::optional<std::string> path_of(const JsonMember& member) {
    std::string path = member.key;
    if (!path.starts_with('/') && !path.empty()) {
      all_.without_slash_ = true;
      path = "/" + path;
    }
    std::string_view rest = path;
    bool well_formed = path.starts_with('/');
    if (well_formed && path != "/") {
      rest.remove_prefix(1);
      well_formed = !rest.ends_with('/');
      while (!rest.empty()) {
        const std::string_view part = next_field(rest, '/');
        well_formed = well_formed && !part.empty() && part != "." && part != "..";
      }
    }
    if (well_formed) return path;
    problems_.error(member.at,
                    fmt::format("'{}' is no path of a cgroup, such as /a/b", member.key));
    return std::nullopt;
  }

  void add_root() { entry("/"); }

  // The cgroup and all above it exist from now on.
  Entry& entry(const std::string& path) {
    if (const auto found = all_.cgroups_.find(path); found != all_.cgroups_.end()) {
      return found->second;
    }
    if (path != "/") {
      const std::size_t slash = path.rfind('/');
      entry(slash == 0 ? "/" : path.substr(0, slash));
    }
    Entry& made = all_.cgroups_[path];
    made.cgroup.path = path;
    made.cgroup.id = all_.next_id_++;
    return made;
  }

  void remove(const std::string& path) {
    const std::string below = path == "/" ? "/" : path + "/";
    std::erase_if(all_.cgroups_, [&](const auto& each) {
      return each.first == path || each.first.starts_with(below);
    });
  }

  void read_cgroup(const JsonMember& member, Entry& entry) {
    for (const JsonMember& each : member.value.members) {
      bool known = false;
      for (const AmountField& field : kAmountFields) {
        if (each.key != field.key) continue;
        known = true;
        const bool is_null = each.value.kind == JsonNode::Kind::null;
        entry.cgroup.*field.field = is_null ? std::nullopt : field.read(each, problems_);
      }
      if (!known) read_other_file(each, entry);
    }
  }

  void read_other_file(const JsonMember& member, Entry& entry) {
    Cgroup& cgroup = entry.cgroup;
    const bool is_null = member.value.kind == JsonNode::Kind::null;
    if (member.key == "memory.stat") {
      cgroup.stat = is_null ? std::nullopt : json_memory_stat(member, problems_);
    } else if (member.key == "memory.pressure") {
      cgroup.memory_pressure = is_null ? std::nullopt : json_pressure(member, problems_);
    } else if (member.key == "io.pressure") {
      cgroup.io_pressure = is_null ? std::nullopt : json_pressure(member, problems_);
    } else if (member.key == "cpu.pressure") {
      cgroup.cpu_pressure = is_null ? std::nullopt : json_pressure(member, problems_);
    } else if (member.key == "cgroup.freeze") {
      cgroup.frozen = is_null ? std::nullopt : json_flag(member, problems_);
    } else if (member.key == "io.stat") {
      cgroup.io = is_null ? std::nullopt : json_io_stat(member, problems_);
    } else if (member.key == "memory.oom.group") {
      cgroup.oom_group = is_null ? std::nullopt : json_flag(member, problems_);
    } else if (member.key == "populated") {
      cgroup.populated = is_null ? std::nullopt : json_flag(member, problems_);
    } else if (member.key == "xattrs") {
      cgroup.xattrs.clear();
      if (!is_null) cgroup.xattrs = json_xattrs(member, problems_);
    } else if (member.key == "uid") {
      read_owner(member, cgroup);
    } else if (member.key == "kill") {
      entry.kill = KillAnswer::always;
      const auto word = is_null ? std::nullopt : json_word(member, {"ok", "fails"}, problems_);
      if (word) entry.kill = *word == 0 ? KillAnswer::once : KillAnswer::fails;
    } else if (member.key == "memory.reclaim") {
      // A chain continues after both answers.
      cgroup.has_reclaim = !is_null && json_word(member, {"ok", "EAGAIN"}, problems_).has_value();
    } else {
      problems_.unknown_key(member, kCgroupKeys);
    }
  }

  void read_owner(const JsonMember& member, Cgroup& cgroup) {
    const auto uid = json_amount(member, problems_);
    if (!uid) return;
    if (*uid > std::numeric_limits<std::uint32_t>::max()) {
      problems_.expected(member.value, member.key, "a user id");
      return;
    }
    cgroup.uid = static_cast<std::uint32_t>(*uid);
  }

  RuleObservations& all_;
  JsonProblems problems_;
};

RuleObservations::RuleObservations(std::string file, std::string text)
    : file_(std::move(file)), text_(std::move(text)) {}

std::optional<ObservationLine> RuleObservations::next(text::Findings& findings) {
  while (!failed_ && offset_ < text_.size()) {
    const std::size_t end = std::min(text_.find('\n', offset_), text_.size());
    const std::string_view line = std::string_view(text_).substr(offset_, end - offset_);
    offset_ = end + 1;
    ++line_;
    if (trim(line).empty()) continue;
    std::vector<text::Diagnostic> problems;
    const auto root = text::parse_json(line, {}, line_, problems);
    findings.add_errors(file_, problems);
    std::optional<ObservationLine> read;
    if (root) read = LineReader(*this, findings).read(*root);
    failed_ = !read;
    return read;
  }
  return std::nullopt;
}

bool RuleObservations::kill(std::string_view cgroup) {
  const auto found = cgroups_.find(cgroup);
  if (found == cgroups_.end()) return false;
  KillAnswer& answer = found->second.kill;
  if (answer == KillAnswer::once) {
    answer = KillAnswer::fails;
    return true;
  }
  return answer == KillAnswer::always;
}

void RuleObservations::wrote(std::string_view cgroup, std::string_view file, std::int64_t value) {
  const auto found = cgroups_.find(cgroup);
  if (found == cgroups_.end()) return;
  if (file == "memory.high") found->second.cgroup.high = value;
  if (file == "memory.high.tmp") found->second.cgroup.high_tmp = value;
  if (file == "cgroup.freeze") found->second.cgroup.frozen = value == 1;
}

std::string RuleObservations::shown(std::string_view cgroup) const {
  const bool cut = without_slash_ && cgroup.size() > 1 && cgroup.starts_with('/');
  return std::string(cut ? cgroup.substr(1) : cgroup);
}

}  // namespace forestall::intake
