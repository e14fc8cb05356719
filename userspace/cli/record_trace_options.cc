// SPDX-License-Identifier: Apache-2.0
#include "cli/record_trace_options.h"

#include <CLI/CLI.hpp>
#include <string>

#include "cli/command_line.h"
#include "cli/option_forms.h"
#include "cli/shared_options.h"

namespace forestall::cli {
namespace {

// -o is the output format in most subcommands, but names a file in `record`.
std::string not_a_format(const std::string& file) {
  if (file != "text" && file != "json") return {};
  return "'" + file + "' is a format, and -o names a file here; set the format with --output " +
         file + ", or write ./" + file;
}

}  // namespace

void describe_trace(CLI::App& command, CommandLine& line) {
  trace::TraceOptions& trace = line.trace;
  add_value(command, "--cgroup", trace.cgroups, "GLOB",
            "Only cgroups whose path in the memory hierarchy matches, and their descendants; may "
            "be repeated");
  add_value(command, "--pod", trace.pods, "POD",
            "Only this pod, by its UID, or by a name or namespace/name from the configuration; "
            "may be repeated");
  add_value(command, "--kind", trace.kinds, "LIST",
            "Only these kinds of events: memcg-reclaim, direct-reclaim, kswapd, stall, compaction, "
            "throttled, oom, pressure, usage, reclaim-count, agent, cgroup; reclaim for the first "
            "three, or all");
  add_value(command, "--min", trace.shortest, "DURATION",
            "Only events that lasted at least this long, such as 1ms");
  command.add_flag("--begins", trace.begins, "Show the begin of an event as well as its end");
  add_value(command, "--summary", trace.summary, "DURATION",
            "Instead of events, print sums and histograms for each window of this length");
  add_value(command, "--top", trace.top, "N", "Cgroups in a summary (default: 10)")
      ->check(number_from(1));
  add_value(command, "--duration", trace.duration, "DURATION", "Stop after this time");
  add_value(command, "--count", trace.count, "N", "Stop after this many events")
      ->check(number_from(1));
  add_value(command, "--buffer", trace.buffer, "AMOUNT",
            "Size of the BPF ring buffer (default: 16Mi)");
  add_value(command, "--color", trace.color, "auto|always|never", "Use colors (default: auto)");
  add_value(command, "-o,--output", trace.format, "text|json|pb",
            "text, one JSON object per line, or length-prefixed forestall.v1.Event messages "
            "(default: text)");
  command.add_flag("--no-agent", trace.without_agent, "Do not connect to a running agent");
  add_agent_address(command, line.options);
}

void describe_record(CLI::App& command, CommandLine& line) {
  RecordOptions& options = line.record;
  add_value(command, "-o,--out", options.file, "FILE", "Output file")
      ->required()
      ->check(not_a_format);
  command.add_flag("-f,--force", options.force, "Overwrite an existing file");
  add_value(command, "--duration", options.duration, "DURATION",
            "Stop after this time (default: at Ctrl-C)");
  add_value(command, "--cgroup", options.cgroups, "GLOB",
            "Record matching cgroups as workloads, in addition to pods and the configuration's "
            "workloads; may be repeated");
}

}  // namespace forestall::cli
