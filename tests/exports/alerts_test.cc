// SPDX-License-Identifier: Apache-2.0
// The alert rules that an installation has, scripts/deploy/alerts.yaml, against the metrics that
// the agent exports: PromQL accepts names that no target has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "bpf/abi/counters.h"
#include "bpf/abi/guard.h"
#include "exports/metrics.h"
#include "support/temp_tree.h"

namespace forestall::exports {
namespace {

using Matches = std::sregex_iterator;

// Values by label name, by metric.
using Series = std::map<std::string, std::map<std::string, std::set<std::string>>>;

// The counters of BPF programs that count losses, by the lists of bpf/abi. All ABI_FAILURES are
// kinds of one counter.
std::vector<BpfCounter> losses() {
  std::vector<BpfCounter> all{{"agent", "failures", "read", true, 0}};
#define APPEND_LOSS(name, loss) \
  if ((loss) != 0) all.push_back({"agent", #name, {}, true, 0});
  ABI_EVENT_COUNTERS(APPEND_LOSS)
  ABI_TIMER_COUNTERS(APPEND_LOSS)
  ABI_GUARD_COUNTERS(APPEND_LOSS)
#undef APPEND_LOSS
  return all;
}

std::set<std::string> names_of_losses() {
  std::set<std::string> names;
  for (const BpfCounter& each : losses()) names.emplace(each.counter);
  return names;
}

std::set<std::string> words_in(const std::string& text) {
  const std::regex word("[a-z_]+");
  std::set<std::string> words;
  for (Matches each(text.begin(), text.end(), word), end; each != end; ++each) {
    words.insert(each->str());
  }
  return words;
}

// With a threshold that is met, and the losses that BPF programs count.
Series exported() {
  DropCounts drops;
  drops.bpf.set(losses());
  Metrics metrics("1", Tier::full, {nullptr, &drops, nullptr});
  Decision decision;
  for (const Duration grace : {Duration(0), Duration(1)}) {
    Evidence& evidence = decision.evidence.emplace_back();
    evidence.threshold.signal = Signal::memory_available;
    evidence.threshold.grace = grace;
    evidence.subject = "node";
    evidence.limit = binary(1);
  }
  metrics.evaluated({Observation(), decision, {}});
  Series series;
  const std::regex label(R"(([a-z_]+)="([^"]*)\")");
  std::istringstream lines(metrics.text());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    auto& labels = series[line.substr(0, line.find_first_of("{ "))];
    for (Matches each(line.begin(), line.end(), label), end; each != end; ++each) {
      labels[(*each)[1]].insert((*each)[2]);
    }
  }
  return series;
}

TEST(Alerts, NameOnlyWhatTheAgentExports) {
  const Series series = exported();
  const std::string rules = test::read_text(FORESTALL_ALERTS);
  const std::regex selector(R"((forestall_[a-z_]+)(?:\{([^}]*)\})?)");
  const std::regex matcher(R"re(([a-z_]+)(?:=|!=|=~|!~)"([^"]*)")re");
  std::set<std::string> selected;
  for (Matches each(rules.begin(), rules.end(), selector), end; each != end; ++each) {
    const std::string name = (*each)[1];
    selected.insert(name);
    ASSERT_TRUE(series.contains(name)) << name;
    const std::string matchers = (*each)[2];
    for (Matches one(matchers.begin(), matchers.end(), matcher); one != end; ++one) {
      const auto& labels = series.at(name);
      ASSERT_TRUE(labels.contains((*one)[1])) << name << " has no label " << (*one)[1];
      std::istringstream values((*one)[2]);
      for (std::string value; std::getline(values, value, '|');) {
        EXPECT_TRUE(labels.at((*one)[1]).contains(value)) << name << ": " << (*one)[1] << value;
      }
    }
  }
  EXPECT_EQ(selected.size(), 6U);
}

TEST(Alerts, EventsLostSelectsEveryLoss) {
  const std::string rules = test::read_text(FORESTALL_ALERTS);
  std::smatch found;
  const std::regex selector(R"re(forestall_bpf_events_total\{counter=~"([^"]*)"\})re");
  ASSERT_TRUE(std::regex_search(rules, found, selector));
  EXPECT_EQ(words_in(found[1]), names_of_losses());
}

TEST(Alerts, TheManPageListsEveryLoss) {
  const std::string page = test::read_text(FORESTALL_MAN_PAGE);
  const std::string before = "Each increase of a counter named\n";
  const std::size_t begin = page.find(before);
  ASSERT_NE(begin, std::string::npos);
  const std::size_t end = page.find("\nis a loss.", begin);
  ASSERT_NE(end, std::string::npos);
  const std::size_t names = begin + before.size();
  std::set<std::string> listed = words_in(page.substr(names, end - names));
  listed.erase("i");  // the macro .Li
  listed.erase("or");
  EXPECT_EQ(listed, names_of_losses());
}

// Those of `sum by (...)`, and those that texts show.
TEST(Alerts, GroupByLabelsThatExist) {
  std::set<std::string> known{"job", "instance"};  // Prometheus adds them
  for (const auto& [name, labels] : exported()) {
    for (const auto& [label, values] : labels) known.insert(label);
  }
  const std::string rules = test::read_text(FORESTALL_ALERTS);
  const std::regex grouping(R"(by \(([^)]*)\)|\$labels\.([a-z_]+))");
  std::size_t count = 0;
  for (Matches each(rules.begin(), rules.end(), grouping), end; each != end; ++each) {
    for (const std::string& label : words_in((*each)[1].str() + " " + (*each)[2].str())) {
      EXPECT_TRUE(known.contains(label)) << label;
      ++count;
    }
  }
  EXPECT_GT(count, 20U);
}

}  // namespace
}  // namespace forestall::exports
