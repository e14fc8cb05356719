// SPDX-License-Identifier: Apache-2.0
// A scene is read only on request, so no descriptor is held in between. The cgroups are walked each
// time (8 µs each), because they and their memory.oom.group change.
#include "sources/oom_scene.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/parse.h"
#include "kernel/held_file.h"
#include "kernel/memory_files.h"
#include "sources/cgroup_walk.h"
#include "sources/memcg_limit.h"
#include "sources/node_pages.h"

namespace forestall::sources {
namespace {

Result<std::string> read_text(const std::string& path) {
  const auto file = TRY(kernel::HeldFile::open(AT_FDCWD, path.c_str(), path));
  std::string buffer;
  const auto text = TRY(file.read(buffer));
  return std::string(text);
}

Result<std::int64_t> read_number(const std::string& path) {
  const auto text = TRY(read_text(path));
  const auto value = parse_i64(trim(text));
  if (!value) return error(path + ": not a number");
  return *value;
}

// v1 memory.oom_control: "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n".
Result<bool> read_kill_disabled(const kernel::CgroupTree& tree, const kernel::CgroupDir& cgroup) {
  if (tree.version() == kernel::CgroupVersion::v2) return false;
  const auto text = TRY(cgroup.read("memory.oom_control"));
  std::string_view rest = text;
  while (!rest.empty()) {
    auto line = next_field(rest, '\n');
    if (next_word(line) == "oom_kill_disable") return trim(line) == "1";
  }
  return error(cgroup.path() + "/memory.oom_control: no oom_kill_disable");
}

}  // namespace

class OomSceneReader::Reader {
 public:
  Reader(const kernel::CgroupTree& tree, ProcessSource& processes, std::string proc,
         std::string sys)
      : tree_(tree), processes_(processes), proc_(std::move(proc)), sys_(std::move(sys)) {}

  Result<void> read_node(OomScene& scene);
  Result<void> read_nodes(Constraint constraint, NodeMask nodes, OomScene& scene);
  Result<void> read_memcg(const std::string& path, OomScene& scene);

 private:
  struct Totals {
    Pages memory = 0;
    Pages swap = 0;
  };
  Result<Totals> totals();
  Result<void> read_settings(OomSettings& settings) const;
  // Everything except the domain.
  Result<void> read_rest(const std::string& top, OomScene& scene);

  const kernel::CgroupTree& tree_;
  ProcessSource& processes_;
  std::string proc_;
  std::string sys_;
  std::int64_t page_bytes_ = ::sysconf(_SC_PAGESIZE);
};

Result<OomSceneReader::Reader::Totals> OomSceneReader::Reader::totals() {
  const auto text = TRY(read_text(proc_ + "/meminfo"));
  const auto meminfo = kernel::parse_meminfo(text);
  if (!meminfo) return meminfo.error().in(proc_ + "/meminfo");
  if (!meminfo->total || !meminfo->swap_total) {
    return error(proc_ + "/meminfo: no MemTotal or no SwapTotal");
  }
  return Totals{meminfo->total->count / page_bytes_, meminfo->swap_total->count / page_bytes_};
}

Result<void> OomSceneReader::Reader::read_settings(OomSettings& settings) const {
  const auto vm = proc_ + "/sys/vm/";
  settings.kill_allocating_task = TRY(read_number(vm + "oom_kill_allocating_task")) != 0;
  settings.panic_on_oom = static_cast<int>(TRY(read_number(vm + "panic_on_oom")));
  return {};
}

Result<void> OomSceneReader::Reader::read_rest(const std::string& top, OomScene& scene) {
  scene.allocating.reset();
  TRY(read_settings(scene.settings));
  TRY(walk_memory_cgroups(tree_, top, scene.cgroups));
  std::optional<CgroupId> subtree;
  if (scene.domain.constraint == Constraint::memcg) subtree = scene.domain.cgroup;
  return processes_.scan(subtree, scene.processes);
}

Result<void> OomSceneReader::Reader::read_node(OomScene& scene) {
  const auto total = TRY(totals());
  scene.domain = {};
  scene.domain.total_pages = total.memory + total.swap;
  return read_rest("/", scene);
}

Result<void> OomSceneReader::Reader::read_nodes(Constraint constraint, NodeMask nodes,
                                                OomScene& scene) {
  if (constraint != Constraint::cpuset && constraint != Constraint::memory_policy) {
    return error(fmt::format("{}: not a constraint on nodes", to_string(constraint)));
  }
  const auto with_memory = TRY(read_nodes_with_memory(sys_));
  if ((nodes & with_memory) == with_memory) {
    return error(
        "the mask has all nodes with memory, which the kernel does not treat as a constraint");
  }
  if ((nodes & with_memory) == 0) {
    return error("none of these nodes has memory, so they cannot run out");
  }
  const auto total = TRY(totals());
  const auto zones = TRY(read_text(proc_ + "/zoneinfo"));
  const auto present = TRY(present_pages(zones, nodes));
  scene.domain = {};
  scene.domain.constraint = constraint;
  scene.domain.nodes = nodes;
  scene.domain.total_pages = present + total.swap;
  return read_rest("/", scene);
}

Result<void> OomSceneReader::Reader::read_memcg(const std::string& path, OomScene& scene) {
  if (path == "/") return error("/: the root memory cgroup has no limit");
  const auto total = TRY(totals());
  const auto cgroup = TRY(tree_.open(path));
  const auto limits = TRY(read_memcg_limits(tree_, cgroup, proc_));
  const auto pages = memcg_total_pages(limits, total.swap, page_bytes_);
  if (!pages) return error(path + ": no memory limit of its own, so it cannot run out");
  scene.domain = {};
  scene.domain.constraint = Constraint::memcg;
  scene.domain.cgroup = cgroup.id();
  scene.domain.path = path;
  scene.domain.total_pages = *pages;
  scene.domain.kill_disabled = TRY(read_kill_disabled(tree_, cgroup));
  TRY(read_rest(path, scene));
  if (scene.cgroups.front().id != cgroup.id()) {
    return Error{ENODEV, path + ": removed and created again during the read"};
  }
  return {};
}

OomSceneReader::OomSceneReader(const kernel::CgroupTree& tree, ProcessSource& processes,
                               std::string proc, std::string sys)
    : reader_(std::make_unique<Reader>(tree, processes, std::move(proc), std::move(sys))) {}
OomSceneReader::~OomSceneReader() = default;

Result<void> OomSceneReader::read_node(OomScene& scene) {
  return reader_->read_node(scene);
}
Result<void> OomSceneReader::read_nodes(Constraint constraint, NodeMask nodes, OomScene& scene) {
  return reader_->read_nodes(constraint, nodes, scene);
}
Result<void> OomSceneReader::read_memcg(const std::string& path, OomScene& scene) {
  return reader_->read_memcg(path, scene);
}

Result<bool> order_ties(ProcessSource& processes, OomScene& scene,
                        const std::vector<std::size_t>& tied) {
  if (tied.empty()) return false;
  if (scene.domain.constraint == Constraint::memcg) return processes.order(scene.processes, tied);
  return processes.order_on_node(scene.processes, tied);
}

}  // namespace forestall::sources
