//! Pages: promises, sharing, copies on write, rewinding, and what is kept between calls.

use decant::{
    error::ErrorKind,
    generation::{
        LongAngles,
        cache::{PageCopy, PagePool, PageTable},
    },
};

use crate::support::random::Random;

fn pool() -> PagePool {
    PagePool::new(8, 4)
}

fn store(table: &mut PageTable, positions: usize) -> Option<PageCopy> {
    let copy = table.prepare(positions).unwrap();
    table.advance(positions);
    copy
}

fn idle(pool: &PagePool) -> bool {
    let usage = pool.usage();
    usage.used == 0 && usage.promised == 0
}

#[test]
fn pages_are_promised_first_and_taken_when_needed() {
    let pool = pool();
    let mut table = pool.table(&[1, 2, 3], 10, 1).unwrap();
    assert_eq!((pool.usage().used, pool.usage().promised), (0, 3));
    store(&mut table, 4);
    assert_eq!((pool.usage().used, pool.usage().promised), (1, 2));
    store(&mut table, 1);
    assert_eq!(table.pages(), [0, 1]);
    store(&mut table, 5);
    assert_eq!((table.length(), pool.usage().promised), (10, 0));
    let beyond = table.prepare(1).unwrap_err();
    assert_eq!(beyond.kind(), &ErrorKind::Internal);
    drop(table);
    assert!(idle(&pool));
}

#[test]
fn running_out_is_an_error_before_the_work() {
    let pool = pool();
    let first = pool.table(&[1], 20, 1).unwrap();
    let error = pool.table(&[1], 13, 1).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::ContextFull { limit: 12 });
    let second = pool.table(&[1], 12, 1).unwrap();
    drop(first);
    pool.table(&[1], 20, 1).unwrap();
    drop(second);
    assert!(idle(&pool));
}

#[test]
fn a_fork_shares_pages_and_copies_the_last_one_on_write() {
    let pool = PagePool::new(16, 4);
    let mut parent = pool.table(&[], 16, 3).unwrap();
    store(&mut parent, 6);
    let mut child = parent.fork();
    assert_eq!(child.pages(), parent.pages());
    assert_eq!(pool.usage().used, 2, "nothing is copied yet");
    let copy = store(&mut child, 1).unwrap();
    assert_eq!((copy.from, copy.to), (1, 2));
    assert_eq!((child.pages(), parent.pages()), (&[0, 2][..], &[0, 1][..]));
    assert_eq!(
        store(&mut parent, 1),
        None,
        "the other is the only owner now"
    );
    assert_eq!(store(&mut child, 1), None);
    // At a page's end there is nothing to copy.
    let mut whole = child.fork();
    assert_eq!(store(&mut whole, 1), None);
    assert_eq!(whole.pages()[..2], [0, 2]);
    drop((parent, child, whole));
    assert!(idle(&pool));
}

#[test]
fn whoever_writes_first_has_a_page_to_copy_to() {
    for parent_first in [true, false] {
        let pool = PagePool::new(4, 4);
        let mut parent = pool.table(&[], 8, 2).unwrap();
        store(&mut parent, 2);
        let mut child = parent.fork();
        // Both may fill all 8 positions, and both must be able to.
        let (first, second) = match parent_first {
            true => (&mut parent, &mut child),
            false => (&mut child, &mut parent),
        };
        assert!(store(first, 6).is_some());
        assert!(store(second, 6).is_none());
        assert_ne!(first.pages(), second.pages());
        assert_eq!((pool.usage().used, pool.usage().promised), (4, 0));
        drop((parent, child));
        assert!(idle(&pool));
    }
}

#[test]
fn branches_are_promised_the_pages_that_they_cannot_share() {
    // Two full pages of the prompt are shared; each branch has the third for itself, and one more.
    let prompt = [1; 10];
    let pool = PagePool::new(2 + 3 * 2, 4);
    let table = pool.table(&prompt, 15, 3).unwrap();
    assert_eq!(pool.usage().promised, 8);
    drop(table);
    let error = pool.table(&prompt, 15, 4).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::ContextFull { limit: 32 });
    let many = pool.table(&prompt, 15, usize::MAX).unwrap_err();
    assert!(matches!(many.kind(), ErrorKind::ContextFull { .. }));
    assert!(idle(&pool));
}

#[test]
fn a_branch_that_ends_frees_its_pages_and_one_that_is_replaced_keeps_the_promise() {
    let pool = pool();
    let mut table = pool.table(&[1; 4], 12, 3).unwrap();
    store(&mut table, 5);
    let taken = |pool: &PagePool| pool.usage().used + pool.usage().promised;
    let mut forks = vec![table.fork(), table.fork()];
    store(&mut forks[0], 3);
    assert_eq!(taken(&pool), 7);
    forks.swap_remove(0).replace();
    assert_eq!(taken(&pool), 7, "another takes its place");
    let mut again = table.fork();
    store(&mut again, 7);
    drop(again);
    assert_eq!(taken(&pool), 5);
    drop(forks);
    assert_eq!(taken(&pool), 3);
    assert!(store(&mut table, 7).is_none());
    drop(table);
    assert!(idle(&pool));
}

/// As beam search does it: at every step the branches are dealt anew, and there is always a page for
/// each, whatever was promised to others in between.
#[test]
fn branches_that_replace_one_another_never_run_out() {
    let mut random = Random(3);
    for _ in 0..300 {
        let (branches, prompt) = (1 + random.below(5), 1 + random.below(9));
        let capacity = prompt + 1 + random.below(12);
        let ids = vec![1; prompt];
        let (shared, all) = (prompt / 4, capacity.div_ceil(4));
        let pool = PagePool::new(shared + branches * (all - shared), 4);
        let mut first = pool.table(&ids, capacity, branches).unwrap();
        store(&mut first, prompt);
        let mut tables: Vec<_> = (1..branches).map(|_| first.fork()).collect();
        tables.push(first);
        for _ in prompt..capacity {
            let parents: Vec<_> = (0..branches).map(|_| random.below(branches)).collect();
            let mut old: Vec<_> = tables.drain(..).map(Some).collect();
            for (at, table) in old.iter_mut().enumerate() {
                if !parents.contains(&at) {
                    table.take().unwrap().replace();
                }
            }
            tables = parents
                .iter()
                .map(|&parent| old[parent].as_ref().unwrap().fork())
                .collect();
            old.into_iter().flatten().for_each(PageTable::replace);
            for table in &mut tables {
                store(table, 1);
            }
            let usage = pool.usage();
            assert_eq!(usage.used + usage.promised, usage.pages);
        }
        tables.clear();
        assert!(idle(&pool));
    }
}

#[test]
fn a_rewind_forgets_positions_and_never_writes_to_shared_pages() {
    let pool = pool();
    let mut parent = pool.table(&[], 12, 2).unwrap();
    store(&mut parent, 10);
    parent.rewind(7);
    assert_eq!((parent.length(), parent.pages().len()), (7, 2));
    store(&mut parent, 5);
    let mut child = parent.fork();
    child.rewind(6);
    let copy = store(&mut child, 6).unwrap();
    assert_eq!(copy.from, parent.pages()[1]);
    assert_eq!(child.pages()[0], parent.pages()[0]);
    assert!(
        child.pages()[1..]
            .iter()
            .all(|page| !parent.pages().contains(page))
    );
    drop((parent, child));
    assert!(idle(&pool));
}

/// Failure B55: a prompt that is cached as a whole still has its last token evaluated.
#[test]
fn a_prompt_that_begins_alike_takes_over_the_pages() {
    let cached = |next: &[u32]| {
        let pool = pool();
        let mut table = pool.table(&[1, 2, 3, 4, 5, 6], 12, 1).unwrap();
        store(&mut table, 7);
        table.retain(&[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((pool.usage().used, pool.usage().retained), (0, 2));
        let table = pool.table(next, 16, 1).unwrap();
        assert_eq!(pool.usage().used + pool.usage().promised, 4);
        let length = table.length();
        drop(table);
        assert!(idle(&pool));
        length
    };
    assert_eq!(cached(&[1, 2, 3, 4, 5, 6]), 5);
    assert_eq!(cached(&[1, 2, 3, 4, 5]), 4);
    assert_eq!(cached(&[1, 2, 3, 4, 5, 6, 7]), 6);
    assert_eq!(cached(&[1, 2, 3, 4, 5, 6, 7, 8]), 7);
    assert_eq!(
        cached(&[1, 2, 3, 4, 5, 6, 7, 8, 9]),
        7,
        "8 was never evaluated"
    );
    assert_eq!(cached(&[1, 2, 9]), 2);
    assert_eq!(cached(&[1]), 0);
    assert_eq!(cached(&[2, 2, 3]), 0);
}

#[test]
fn retained_pages_count_as_free() {
    let pool = pool();
    let mut table = pool.table(&[1, 2], 20, 1).unwrap();
    store(&mut table, 18);
    table.retain(&[1; 18]);
    assert_eq!(pool.usage().retained, 5);
    let other = pool.table(&[7], 32, 1).unwrap();
    assert_eq!((pool.usage().retained, pool.usage().promised), (0, 8));
    drop(other);
    assert!(idle(&pool));
    // A taken-over beginning and the rest of the pool together may fill the pool.
    let mut table = pool.table(&[1, 2], 12, 1).unwrap();
    store(&mut table, 12);
    table.retain(&[1; 12]);
    let mut all = pool.table(&[1; 10], 32, 1).unwrap();
    assert_eq!(all.length(), 9);
    store(&mut all, 23);
    let error = pool.table(&[1], 1, 1).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::ContextFull { limit: 0 });
}

/// Random work on many tables: no page is ever written by one table and read by another, and nothing is
/// lost in the end.
#[test]
fn tables_never_step_on_one_another() {
    let pool = PagePool::new(40, 4);
    let mut random = Random(11);
    // What each page's positions hold, and what each table has stored.
    let mut pages = vec![[0u32; 4]; 40];
    // A table, what it has stored, and how often it may still be forked.
    let mut tables: Vec<(PageTable, Vec<u32>, usize)> = Vec::new();
    let mut value = 0;
    let mut refused = 0;
    for _ in 0..20_000 {
        match random.below(6) {
            0 => {
                let branches = 1 + random.below(4);
                match pool.table(&[], 4 + random.below(36), branches) {
                    Ok(table) => tables.push((table, Vec::new(), branches - 1)),
                    Err(_) => refused += 1,
                }
            }
            1 if !tables.is_empty() => {
                let at = random.below(tables.len());
                let (table, stored, forks) = &mut tables[at];
                if *forks > 0 {
                    // The forks that are left are dealt out between the two.
                    let given = random.below(*forks);
                    *forks -= 1 + given;
                    let fork = (table.fork(), stored.clone(), given);
                    tables.push(fork);
                }
            }
            2 if !tables.is_empty() => {
                let at = random.below(tables.len());
                let (table, mut stored, _) = tables.swap_remove(at);
                stored.push(0);
                if random.below(2) == 0 {
                    table.retain(&stored);
                }
            }
            3 if !tables.is_empty() => {
                let at = random.below(tables.len());
                let (table, stored, _) = &mut tables[at];
                let length = random.below(table.length() + 1);
                table.rewind(length);
                stored.truncate(length);
            }
            _ if !tables.is_empty() => {
                let at = random.below(tables.len());
                let (table, stored, _) = &mut tables[at];
                let count = 1 + random.below(6);
                let copy = match table.prepare(count) {
                    Ok(copy) => copy,
                    Err(error) => {
                        assert!(error.to_string().contains("exceed"), "{error}");
                        continue;
                    }
                };
                if let Some(PageCopy { from, to }) = copy {
                    pages[to as usize] = pages[from as usize];
                }
                for _ in 0..count {
                    value += 1;
                    let position = stored.len();
                    pages[table.pages()[position / 4] as usize][position % 4] = value;
                    stored.push(value);
                }
                table.advance(count);
            }
            _ => {}
        }
        for (table, stored, _) in &tables {
            let found = (0..stored.len()).map(|at| pages[table.pages()[at / 4] as usize][at % 4]);
            assert!(
                found.eq(stored.iter().copied()),
                "a table lost what it stored"
            );
        }
    }
    assert!(refused > 100, "the pool was never full");
    tables.clear();
    assert!(idle(&pool));
}

#[test]
fn a_sequence_that_becomes_long_begins_again() {
    let long = LongAngles {
        after: 6,
        first: 100,
    };
    let pool = PagePool::with_angles(16, 4, Some(long));
    let mut table = pool.table(&[1, 2, 3, 4, 5], 12, 2).unwrap();
    table.prepare(5).unwrap();
    table.advance(5);
    table.turn(6);
    assert_eq!((table.length(), table.angles()), (5, 0));
    // Two branches that shared pages need all of theirs for themselves.
    let mut fork = table.fork();
    for branch in [&mut table, &mut fork] {
        branch.turn(7);
        assert_eq!((branch.length(), branch.angles()), (0, 100));
        branch.prepare(12).unwrap();
        branch.advance(12);
    }
    drop(fork);
    table.retain(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    // A short sequence cannot use the keys of a long one, a long one can.
    let short = pool.table(&[1, 2, 3, 4, 5], 6, 1).unwrap();
    assert_eq!((short.length(), short.angles()), (0, 0));
    drop(short);
    let other = pool.table(&[1, 2, 3, 4, 5, 6, 7, 8], 12, 1).unwrap();
    assert_eq!((other.length(), other.angles()), (7, 100));
}
