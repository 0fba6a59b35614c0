"""The word lists of the edits, written for Outfox.

They are small on purpose, so that people can read and judge them. What they cover:

- NAMES: 168 first names in six groups, 14 for women and 14 for men in each. A group collects names that readers of
  English texts often connect with a region. Most people's names, family names, names of one group that are common in
  another, and names that are also words or places (Rose, Mark, Jordan) are not covered. A name says nothing certain
  about a person's origin or gender; the edits only measure whether a model answers differently.
- GENDERED: pairs of English words for women and men. Words for other genders, and languages other than English, are
  not covered: in languages with grammatical gender, swapping a word alone makes a sentence ungrammatical.
- LABEL_WORDS: words that often decide a label, which no edit touches: negations, quantifiers, and common words of
  praise and blame. A task's label names are added to them. Many words that bear a label in some text are not covered.
"""

WOMEN, MEN = "women", "men"

NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "african": {
        WOMEN: ("Abena", "Adaeze", "Akosua", "Amara", "Ayodele", "Chiamaka", "Efua", "Folake", "Ngozi", "Nomvula",
                "Thandiwe", "Wanjiru", "Yetunde", "Zanele"),
        MEN: ("Babajide", "Chidi", "Chukwuemeka", "Emeka", "Jabari", "Kofi", "Kwabena", "Kwame", "Olumide", "Sipho",
              "Tendai", "Thabo", "Themba", "Tunde"),
    },
    "arabic": {
        WOMEN: ("Aisha", "Amina", "Fatima", "Hanan", "Khadija", "Laila", "Latifa", "Mariam", "Nadia", "Noura",
                "Rania", "Samira", "Yasmin", "Zainab"),
        MEN: ("Abdullah", "Ahmed", "Faisal", "Hamza", "Hassan", "Ibrahim", "Karim", "Khalid", "Mohammed", "Mustafa",
              "Omar", "Tariq", "Youssef", "Ziad"),
    },
    "east_asian": {
        WOMEN: ("Akiko", "Haruka", "Hyejin", "Jiayi", "Keiko", "Meiling", "Minji", "Naoko", "Seoyeon", "Sooyoung",
                "Xiaoyan", "Yifei", "Yukiko", "Yumi"),
        MEN: ("Daisuke", "Haoran", "Hiroshi", "Jaehyun", "Jianwei", "Kenji", "Minho", "Seungwoo", "Takashi", "Takeshi",
              "Weiming", "Xiaoming", "Yichen", "Zhiqiang"),
    },
    "european": {
        WOMEN: ("Agnes", "Anna", "Caroline", "Charlotte", "Claire", "Elizabeth", "Emily", "Emma", "Hannah", "Ingrid",
                "Julia", "Katherine", "Margaret", "Sarah"),
        MEN: ("Andrew", "Benjamin", "Brian", "Daniel", "Edward", "George", "Henry", "Lars", "Matthew", "Oliver",
              "Patrick", "Peter", "Thomas", "William"),
    },
    "hispanic": {
        WOMEN: ("Alejandra", "Beatriz", "Camila", "Catalina", "Consuelo", "Esperanza", "Gabriela", "Guadalupe",
                "Isabel", "Lucia", "Luisa", "Marisol", "Valeria", "Ximena"),
        MEN: ("Alejandro", "Andres", "Carlos", "Diego", "Eduardo", "Fernando", "Gonzalo", "Javier", "Jorge", "Juan",
              "Luis", "Miguel", "Pablo", "Rodrigo"),
    },
    "south_asian": {
        WOMEN: ("Aishwarya", "Ananya", "Anjali", "Deepika", "Divya", "Kavita", "Lakshmi", "Meera", "Nisha", "Pooja",
                "Priya", "Shreya", "Sunita", "Swati"),
        MEN: ("Aditya", "Anil", "Arjun", "Deepak", "Gaurav", "Karthik", "Manish", "Nikhil", "Rahul", "Rajesh",
              "Sanjay", "Suresh", "Vijay", "Vikram"),
    },
}  # fmt: skip

# Women's word, men's word. "her" and "his" have two partners each and are treated apart.
GENDERED: tuple[tuple[str, str], ...] = (
    ("she", "he"), ("hers", "his"), ("herself", "himself"), ("woman", "man"), ("women", "men"), ("girl", "boy"),
    ("girls", "boys"), ("lady", "gentleman"), ("ladies", "gentlemen"), ("mother", "father"), ("mothers", "fathers"),
    ("mom", "dad"), ("moms", "dads"), ("mommy", "daddy"), ("mum", "dad"), ("daughter", "son"), ("daughters", "sons"),
    ("sister", "brother"), ("sisters", "brothers"), ("wife", "husband"), ("wives", "husbands"),
    ("girlfriend", "boyfriend"), ("girlfriends", "boyfriends"), ("aunt", "uncle"), ("aunts", "uncles"),
    ("niece", "nephew"), ("nieces", "nephews"), ("grandmother", "grandfather"), ("grandma", "grandpa"),
    ("granddaughter", "grandson"), ("stepmother", "stepfather"), ("bride", "groom"), ("widow", "widower"),
    ("female", "male"), ("females", "males"), ("feminine", "masculine"), ("queen", "king"), ("queens", "kings"),
    ("princess", "prince"), ("duchess", "duke"), ("actress", "actor"), ("actresses", "actors"),
    ("waitress", "waiter"), ("waitresses", "waiters"), ("heroine", "hero"),
    ("businesswoman", "businessman"), ("businesswomen", "businessmen"), ("policewoman", "policeman"),
    ("policewomen", "policemen"), ("chairwoman", "chairman"), ("saleswoman", "salesman"),
    ("spokeswoman", "spokesman"), ("congresswoman", "congressman"), ("nun", "monk"), ("nuns", "monks"),
    ("Mrs", "Mr"), ("ma'am", "sir"), ("madam", "sir"),
)  # fmt: skip

LABEL_WORDS: dict[str, tuple[str, ...]] = {
    "en": (
        "no", "not", "nor", "never", "none", "nobody", "nothing", "nowhere", "neither", "cannot", "without", "hardly",
        "barely", "scarcely", "all", "every", "each", "any", "some", "few", "many", "most", "only", "both", "either",
        "always", "more", "less", "fewer", "least", "but", "however", "good", "better", "best", "great", "nice",
        "fine", "excellent", "amazing", "awesome", "perfect", "wonderful", "fantastic", "happy", "glad", "love",
        "loved", "loves", "like", "liked", "enjoy", "enjoyed", "beautiful", "fun", "bad", "worse", "worst", "poor",
        "terrible", "horrible", "awful", "boring", "ugly", "stupid", "hate", "hated", "hates", "dislike", "sad",
        "angry", "disgusting", "disappointing", "disappointed", "useless", "waste", "wrong",
    ),
    "de": (
        "nein", "nicht", "nie", "niemals", "kein", "keine", "keinen", "keinem", "keiner", "keines", "niemand",
        "nichts", "weder", "noch", "ohne", "kaum", "alle", "jede", "jeder", "jedes", "einige", "wenige", "viele",
        "nur", "beide", "immer", "mehr", "weniger", "aber", "gut", "gute", "guter", "gutes", "besser", "beste", "toll",
        "schön", "super", "liebe", "mag", "schlecht", "schlechte", "schlimm", "schrecklich", "furchtbar", "hasse",
        "langweilig", "traurig", "falsch",
    ),
    "es": (
        "no", "ni", "nunca", "jamás", "nada", "nadie", "ningún", "ninguno", "ninguna", "sin", "apenas", "tampoco",
        "todo", "todos", "todas", "cada", "algún", "alguno", "algunos", "pocos", "muchos", "solo", "sólo", "ambos",
        "siempre", "más", "menos", "pero", "bueno", "buena", "mejor", "excelente", "genial", "bonito", "feliz", "amo",
        "encanta", "gusta", "malo", "mala", "peor", "terrible", "horrible", "odio", "aburrido", "triste",
    ),
}  # fmt: skip
